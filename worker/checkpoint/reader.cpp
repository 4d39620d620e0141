#include "worker/checkpoint/reader.h"

#include <ATen/ATen.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "job/checkpoint/checkpoint_files.h"
#include "job/checkpoint/checkpoint_table.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/elements.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kNumbersAtOnce = int64_t{1} << 20;  // that are dequantised

/// Beginning of an error about a tensor.
std::string tensor_of_file(const fs::path& path, const std::string& name) {
  return path.string() + ": tensor " + in_quotes(name);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& file_path, const InputFile& file)
    : path(file_path),
      header(read_safetensors_header(file)),
      stamp(file.stamp()),
      size_(file.size()) {
  // The private mapping is writable, because the owner of a tensor that views it may change it in
  // place.
  void* address = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                         file.descriptor(), 0);
  if (address == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), path.string() + ": cannot map");
  }
  mapping_ = {static_cast<char*>(address), [size = size_](char* base) { ::munmap(base, size); }};
}

std::string SafetensorsFile::sha256() const { return sha256_of_bytes(mapping_.get(), size_); }

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto found = header.tensors.find(name);
  if (found == header.tensors.end()) {
    throw InputError(tensor_of_file(path, name) + " is not there");
  }
  const TensorInfo& info = found->second;
  return tensor(TensorPlace{"", name, info.dtype, info.shape, info.begin, info.end});
}

at::Tensor SafetensorsFile::tensor(const TensorPlace& place) const {
  at::ScalarType dtype;
  try {
    dtype = torch_dtype(place.dtype);
  } catch (const InputError& error) {
    throw InputError(tensor_of_file(path, place.stored_name) + ": " + error.what());
  }
  if (place.begin == place.end) return at::empty(place.shape, dtype);
  if (place.transposed) {
    TensorPlace stored = place;
    stored.shape = place.stored_shape();
    stored.transposed = false;
    return tensor(stored).transpose(-2, -1);
  }
  char* data = mapping_.get() + place.begin;
  if (place.begin % c10::elementSize(dtype) != 0) {
    at::Tensor copy = at::empty(place.shape, dtype);
    std::memcpy(copy.data_ptr(), data, place.end - place.begin);
    return copy;
  }
  const auto keep_mapped = [mapping = mapping_](void*) {};
  if (dtype == at::kBool) {  // a byte other than 0 or 1 must not be loaded as bool
    return at::from_blob(data, place.shape, keep_mapped, at::kByte).ne(0);
  }
  return at::from_blob(data, place.shape, keep_mapped, dtype);
}

void SafetensorsFile::read_ahead(const TensorPlace& place) const {
  if (place.begin == place.end) return;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t from = place.begin / page * page;
  // Only advice: failure is harmless.
  ::madvise(mapping_.get() + from, place.end - from, MADV_WILLNEED);
}

void SafetensorsFile::release(const at::Tensor& view) const {
  const char* base = mapping_.get();
  const auto* begin = static_cast<const char*>(view.const_data_ptr());
  const bool one_piece = view.is_non_overlapping_and_dense();
  if (view.numel() == 0 || !one_piece || begin < base || begin >= base + size_) return;
  // The pages that lie wholly in the view.
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto first = static_cast<uint64_t>(begin - base);
  const uint64_t from = (first + page - 1) / page * page;
  const uint64_t to = (first + view.nbytes()) / page * page;
  if (from < to) ::madvise(mapping_.get() + from, to - from, MADV_DONTNEED);
}

CheckpointReader::CheckpointReader(const fs::path& model_dir) : dir_(model_dir) {
  const CheckpointFiles files = find_checkpoint_files(dir_);
  add_tensors(table_as_stored(files, map_files(files), dir_));
}

CheckpointReader::CheckpointReader(const fs::path& model_dir, const ModelConfig& config,
                                   const std::vector<fs::path>& replacements)
    : dir_(model_dir) {
  const CheckpointFiles files = find_checkpoint_files(dir_);
  add_tensors(table_of_model(files, map_files(files), dir_, config));
  for (const fs::path& path : replacements) {
    const SafetensorsFile& file = replacements_.emplace_back(path);
    for (const auto& [name, info] : file.header.tensors) {
      const auto replaced = tensors_.find(name);
      if (replaced == tensors_.end()) continue;
      replaced->second = {&file, {"", name, info.dtype, info.shape, info.begin, info.end}};
    }
  }
}

std::map<std::string, SafetensorsHeader> CheckpointReader::map_files(const CheckpointFiles& files) {
  std::map<std::string, SafetensorsHeader> headers;
  for (const std::string& name : files.names) {
    headers.emplace(name, files_.try_emplace(name, dir_ / name).first->second.header);
  }
  return headers;
}

void CheckpointReader::add_tensors(CheckpointTable table) {
  others_ = std::move(table.others);
  for (auto& [name, place] : table.tensors) {
    const SafetensorsFile* file = &files_.at(place.file);
    tensors_.emplace(name, MappedTensor{file, std::move(place)});
  }
}

const CheckpointReader::MappedTensor& CheckpointReader::tensor_named(
    const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw InputError(dir_.string() + ": the checkpoint has no tensor " + in_quotes(name));
  }
  return found->second;
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& entry : tensors_) names.push_back(entry.first);
  return names;
}

std::vector<int64_t> CheckpointReader::shape(const std::string& name) const {
  return tensor_named(name).place.shape;
}

const CheckpointReader::MappedTensor& CheckpointReader::tensor_with(const std::string& name,
                                                                    at::IntArrayRef shape) const {
  const MappedTensor& tensor = tensor_named(name);
  const at::IntArrayRef found = tensor.place.shape;
  if (shape == found) return tensor;
  throw InputError(c10::str(tensor_of_file(tensor.file->path, name), " has shape ", found,
                            ", expected ", shape));
}

void CheckpointReader::read_ahead(const std::string& name, at::IntArrayRef expected_shape) const {
  const MappedTensor& tensor = tensor_with(name, expected_shape);
  tensor.file->read_ahead(tensor.place);
}

at::Tensor CheckpointReader::unpacked(const MappedTensor& tensor) const {
  const QuantisedPlace& form = *tensor.place.quantised;
  const auto values = at::tensor(
      {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0},
      at::kFloat);  // E2M1 of the Open Compute Project's formats for microscaling
  constexpr int kBias = 127;
  TensorPlace place = tensor.place;
  place.dtype = form.dtype;
  place.shape = {-1, form.block_columns / 2};
  place.shape[0] = static_cast<int64_t>(place.bytes()) / place.shape[1];
  place.transposed = false;
  const at::Tensor pairs = tensor.file->tensor(place);
  const at::Tensor exponents =
      files_.at(form.scales.file).tensor(form.scales).reshape({-1, 1}).to(at::kInt) - kBias;
  at::Tensor result = at::empty({pairs.size(0), form.block_columns}, at::kBFloat16);
  const at::Tensor bytes = at::arange(256, at::kLong);  // the lower four bits come first
  const at::Tensor of_bytes = at::stack(
      {values.index({bytes.bitwise_and(15)}), values.index({bytes.bitwise_right_shift(4)})}, 1);
  const int64_t step = kNumbersAtOnce / form.block_columns;
  for (int64_t first = 0; first < pairs.size(0); first += step) {
    const int64_t count = std::min(step, pairs.size(0) - first);
    const at::Tensor codes = pairs.narrow(0, first, count).flatten().to(at::kInt);
    const at::Tensor numbers = of_bytes.index_select(0, codes).view({count, form.block_columns});
    result.narrow(0, first, count).copy_(numbers * at::pow(2.0, exponents.narrow(0, first, count)));
  }
  tensor.file->release(pairs);
  const at::Tensor weight = result.view(tensor.place.stored_shape());
  return tensor.place.transposed ? weight.transpose(-2, -1) : weight;
}

std::string CheckpointReader::in_file(const std::string& name) const {
  const MappedTensor& tensor = tensor_named(name);
  return tensor_of_file(tensor.file->path, tensor.place.stored_name);
}

at::Tensor CheckpointReader::dequantised(const MappedTensor& tensor) const {
  const QuantisedPlace& form = *tensor.place.quantised;
  if (form.packed) return unpacked(tensor);
  TensorPlace bytes = tensor.place;
  bytes.dtype = form.dtype == "F8_E4M3" ? "U8" : form.dtype;  // libtorch's name is another one
  const at::Tensor stored = tensor.file->tensor(bytes);
  const at::Tensor weight = form.dtype == "F8_E4M3" ? stored.view(at::kFloat8_e4m3fn) : stored;
  at::Tensor scales = files_.at(form.scales.file).tensor(form.scales).to(at::kFloat);
  if (!all_finite(scales)) {
    throw InputError(tensor_of_file(tensor.file->path, form.scales.stored_name) +
                     " holds NaN or infinity");
  }
  at::Tensor result = at::empty(tensor.place.shape, at::kBFloat16);
  const int64_t rows = weight.size(0);
  const int64_t columns = weight.size(1);
  if (result.numel() == 0) return result;
  scales = scales.reshape({-1, (columns + form.block_columns - 1) / form.block_columns});
  const int64_t step = std::max<int64_t>(1, kNumbersAtOnce / columns / form.block_rows);
  for (int64_t block = 0; block < scales.size(0); block += step) {
    const int64_t count = std::min(step, scales.size(0) - block);
    const int64_t first = block * form.block_rows;
    const int64_t here = std::min(count * form.block_rows, rows - first);
    const at::Tensor factors = scales.narrow(0, block, count)
                                   .repeat_interleave(form.block_rows, 0)
                                   .narrow(0, 0, here)
                                   .repeat_interleave(form.block_columns, 1)
                                   .narrow(1, 0, columns);
    result.narrow(0, first, here).copy_(weight.narrow(0, first, here).to(at::kFloat) * factors);
  }
  tensor.file->release(stored);
  return result;
}

at::Tensor CheckpointReader::get(const std::string& name, at::IntArrayRef expected_shape) const {
  const MappedTensor& mapped = tensor_with(name, expected_shape);
  if (mapped.place.quantised) return dequantised(mapped);
  const auto& [file, place] = mapped;
  at::Tensor tensor = file->tensor(place);
  if (!tensor.is_floating_point()) {
    throw InputError(tensor_of_file(file->path, name) + " has dtype " + place.dtype +
                     ", expected a floating one (F64, F32, F16, BF16)");
  }
  return tensor;
}

void CheckpointReader::check(const std::string& name, at::IntArrayRef expected_shape) const {
  if (!tensor_with(name, expected_shape).place.quantised) get(name, expected_shape);
}

at::Tensor CheckpointReader::rows(const std::string& name, at::IntArrayRef expected_shape,
                                  const at::Tensor& rows) const {
  const at::Tensor stored = get(name, expected_shape);
  at::Tensor copy = stored.index_select(0, rows);
  release(name, stored);
  return copy;
}

std::vector<fs::path> CheckpointReader::files() const {
  std::vector<fs::path> paths;
  for (const auto& entry : files_) paths.push_back(dir_ / entry.first);
  return paths;
}

std::map<std::string, FileStamp> CheckpointReader::stamps() const {
  std::map<std::string, FileStamp> stamps;
  for (const auto& [name, file] : files_) stamps.emplace(name, file.stamp);
  return stamps;
}

}  // namespace dotresize
