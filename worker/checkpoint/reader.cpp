#include "worker/checkpoint/reader.h"

#include <ATen/ATen.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "worker/checkpoint/dtypes.h"
#include "job/checkpoint/shard_index.h"

namespace dotresize {
namespace fs = std::filesystem;

namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

/// Checks both directions: each file has the tensors that the index lists, and no others.
void check_index(const std::map<std::string, std::string>& index,
                 const std::map<std::string, SafetensorsFile>& files, const fs::path& index_path) {
  for (const auto& [name, file] : index) {
    if (!files.at(file).header.tensors.contains(name)) {
      throw InputError(index_path.string() + ": tensor " + in_quotes(name) + " should be in " +
                       file + ", which does not hold it");
    }
  }
  for (const auto& [file_name, file] : files) {
    for (const auto& entry : file.header.tensors) {
      const auto listed = index.find(entry.first);
      if (listed == index.end() || listed->second != file_name) {
        throw InputError(
            file.path.string() + ": tensor " + in_quotes(entry.first) + " is in this file, but " +
            kIndexFile + " " +
            (listed == index.end() ? "does not list it" : "places it in " + listed->second));
      }
    }
  }
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
  const std::string where = path.string() + ": tensor " + in_quotes(name);
  const auto found = header.tensors.find(name);
  if (found == header.tensors.end()) throw InputError(where + " is not there");
  const TensorInfo& info = found->second;
  at::ScalarType dtype;
  try {
    dtype = torch_dtype(info.dtype);
  } catch (const InputError& error) {
    throw InputError(where + ": " + error.what());
  }
  if (info.begin == info.end) return at::empty(info.shape, dtype);
  char* data = mapping_.get() + info.begin;
  if (info.begin % c10::elementSize(dtype) != 0) {
    at::Tensor copy = at::empty(info.shape, dtype);
    std::memcpy(copy.data_ptr(), data, info.end - info.begin);
    return copy;
  }
  const auto keep_mapped = [mapping = mapping_](void*) {};
  if (dtype == at::kBool) {  // a byte other than 0 or 1 must not be loaded as bool
    return at::from_blob(data, info.shape, keep_mapped, at::kByte).ne(0);
  }
  return at::from_blob(data, info.shape, keep_mapped, dtype);
}

void SafetensorsFile::read_ahead(const std::string& name) const {
  const TensorInfo& info = header.tensors.at(name);
  if (info.begin == info.end) return;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t from = info.begin / page * page;
  // Only advice: failure is harmless.
  ::madvise(mapping_.get() + from, info.end - from, MADV_WILLNEED);
}

void SafetensorsFile::release(const at::Tensor& view) const {
  const char* base = mapping_.get();
  const auto* begin = static_cast<const char*>(view.const_data_ptr());
  if (view.numel() == 0 || !view.is_contiguous() || begin < base || begin >= base + size_) return;
  // The pages that lie wholly in the view.
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto first = static_cast<uint64_t>(begin - base);
  const uint64_t from = (first + page - 1) / page * page;
  const uint64_t to = (first + view.nbytes()) / page * page;
  if (from < to) ::madvise(mapping_.get() + from, to - from, MADV_DONTNEED);
}

CheckpointReader::CheckpointReader(const fs::path& model_dir,
                                   const std::vector<fs::path>& replacements)
    : dir_(model_dir) {
  const fs::path index_path = dir_ / kIndexFile;
  if (fs::exists(dir_ / kSingleFile)) {
    files_.try_emplace(kSingleFile, dir_ / kSingleFile);
  } else if (fs::exists(index_path)) {
    const auto index = parse_shard_index(read_whole_file(index_path.string(), kMaxIndexBytes),
                                         index_path.string());
    for (const auto& [name, file] : index) {
      if (!fs::exists(dir_ / file)) {
        throw InputError(index_path.string() + ": shard " + in_quotes(file) + " of tensor " +
                         in_quotes(name) + " is missing");
      }
      if (!files_.contains(file)) files_.try_emplace(file, dir_ / file);
    }
    check_index(index, files_, index_path);
  } else if (!fs::is_directory(dir_)) {
    throw InputError(dir_.string() + ": no such model directory");
  } else {
    const bool pickled =
        fs::exists(dir_ / "pytorch_model.bin") || fs::exists(dir_ / "pytorch_model.bin.index.json");
    throw InputError(dir_.string() + ": neither " + kSingleFile + " nor " + kIndexFile +
                     (pickled ? "; pytorch_model.bin is not read: load the model with transformers "
                                "and save it with save_pretrained, which writes safetensors"
                              : "; a model directory needs one of them"));
  }
  for (const auto& [file_name, file] : files_) {
    for (const auto& entry : file.header.tensors) owner_.emplace(entry.first, &file);
  }
  for (const fs::path& path : replacements) {
    const SafetensorsFile& file = replacements_.emplace_back(path);
    for (const auto& entry : file.header.tensors) {
      const auto replaced = owner_.find(entry.first);
      if (replaced != owner_.end()) replaced->second = &file;
    }
  }
}

const SafetensorsFile& CheckpointReader::file_of(const std::string& name) const {
  const auto found = owner_.find(name);
  if (found == owner_.end()) {
    throw InputError(dir_.string() + ": the checkpoint has no tensor " + in_quotes(name));
  }
  return *found->second;
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  names.reserve(owner_.size());
  for (const auto& entry : owner_) names.push_back(entry.first);
  return names;
}

std::vector<int64_t> CheckpointReader::shape(const std::string& name) const {
  return file_of(name).header.tensors.at(name).shape;
}

const SafetensorsFile& CheckpointReader::file_with(const std::string& name,
                                                   at::IntArrayRef shape) const {
  const SafetensorsFile& file = file_of(name);
  const at::IntArrayRef found = file.header.tensors.at(name).shape;
  if (shape == found) return file;
  throw InputError(c10::str(file.path.string(), ": tensor ", in_quotes(name), " has shape ", found,
                            ", expected ", shape));
}

at::Tensor CheckpointReader::get(const std::string& name, at::IntArrayRef expected_shape) const {
  const SafetensorsFile& file = file_with(name, expected_shape);
  at::Tensor tensor = file.tensor(name);
  if (!tensor.is_floating_point()) {
    throw InputError(file.path.string() + ": tensor " + in_quotes(name) + " has dtype " +
                     file.header.tensors.at(name).dtype +
                     ", expected a floating one (F64, F32, F16, BF16)");
  }
  return tensor;
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
