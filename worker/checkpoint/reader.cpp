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
#include "worker/checkpoint/shard_index.h"

namespace dotresize {
namespace fs = std::filesystem;

struct SafetensorsFile::Mapping {
  explicit Mapping(const fs::path& file_path) : path(file_path) {
    const InputFile file(path.string());
    header = read_safetensors_header(file);
    size = file.size();
    stamp = file.stamp();
    // The private mapping is writable, because the owner of a tensor that views it may change it in
    // place.
    void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                           file.descriptor(), 0);
    if (address == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), path.string() + ": cannot map");
    }
    base = static_cast<char*>(address);
  }
  ~Mapping() { ::munmap(base, size); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// Starts to read [begin, end) from disk.
  void prefetch(uint64_t begin, uint64_t end) const {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t from = begin / page * page;
    ::madvise(base + from, end - from, MADV_WILLNEED);  // only advice: failure is harmless
  }

  /// Drops the pages that lie wholly in [begin, begin + bytes).
  void release(const char* begin, uint64_t bytes) const {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t from = (static_cast<uint64_t>(begin - base) + page - 1) / page * page;
    const uint64_t to = (static_cast<uint64_t>(begin - base) + bytes) / page * page;
    if (from < to) ::madvise(base + from, to - from, MADV_DONTNEED);
  }
  bool holds(const void* address) const {
    const auto* byte = static_cast<const char*>(address);
    return byte >= base && byte < base + size;
  }

  fs::path path;
  SafetensorsHeader header;
  char* base = nullptr;
  uint64_t size = 0;
  FileStamp stamp;
};

namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

[[noreturn]] void refuse_directory(const fs::path& dir) {
  if (!fs::is_directory(dir)) throw InputError(dir.string() + ": no such model directory");
  const bool pickled =
      fs::exists(dir / "pytorch_model.bin") || fs::exists(dir / "pytorch_model.bin.index.json");
  throw InputError(dir.string() + ": neither " + kSingleFile + " nor " + kIndexFile +
                   (pickled ? "; pytorch_model.bin is not read: load the model with transformers "
                              "and save it with save_pretrained, which writes safetensors"
                            : "; a model directory needs one of them"));
}

/// Checks both directions: each file has the tensors that the index lists, and no others.
void check_index(const std::map<std::string, std::string>& index,
                 const std::map<std::string, SafetensorsFile>& files, const fs::path& index_path) {
  for (const auto& [name, file] : index) {
    if (!files.at(file).header().tensors.contains(name)) {
      throw InputError(index_path.string() + ": tensor " + in_quotes(name) + " should be in " +
                       file + ", which does not hold it");
    }
  }
  for (const auto& [file_name, file] : files) {
    for (const auto& entry : file.header().tensors) {
      const auto listed = index.find(entry.first);
      if (listed == index.end() || listed->second != file_name) {
        throw InputError(
            file.path().string() + ": tensor " + in_quotes(entry.first) + " is in this file, but " +
            kIndexFile + " " +
            (listed == index.end() ? "does not list it" : "places it in " + listed->second));
      }
    }
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path)
    : mapping_(std::make_shared<const Mapping>(path)) {}

const SafetensorsHeader& SafetensorsFile::header() const { return mapping_->header; }

const fs::path& SafetensorsFile::path() const { return mapping_->path; }

const FileStamp& SafetensorsFile::stamp() const { return mapping_->stamp; }

std::string SafetensorsFile::sha256() const {
  return sha256_of_bytes(mapping_->base, mapping_->size);
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const std::string where = path().string() + ": tensor " + in_quotes(name);
  const auto found = header().tensors.find(name);
  if (found == header().tensors.end()) throw InputError(where + " is not there");
  const TensorInfo& info = found->second;
  at::ScalarType dtype;
  try {
    dtype = torch_dtype(info.dtype);
  } catch (const InputError& error) {
    throw InputError(where + ": " + error.what());
  }
  if (info.begin == info.end) return at::empty(info.shape, dtype);
  char* data = mapping_->base + info.begin;
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
  const TensorInfo& info = header().tensors.at(name);
  if (info.begin != info.end) mapping_->prefetch(info.begin, info.end);
}

void SafetensorsFile::release(const at::Tensor& view) const {
  if (view.numel() == 0 || !view.is_contiguous() || !mapping_->holds(view.const_data_ptr())) return;
  mapping_->release(static_cast<const char*>(view.const_data_ptr()), view.nbytes());
}

CheckpointReader::CheckpointReader(const fs::path& model_dir) : dir_(model_dir) {
  const fs::path index_path = dir_ / kIndexFile;
  if (fs::exists(dir_ / kSingleFile)) {
    files_.emplace(kSingleFile, SafetensorsFile(dir_ / kSingleFile));
  } else if (fs::exists(index_path)) {
    const auto index = read_shard_index(index_path.string());
    for (const auto& [name, file] : index) {
      if (!fs::exists(dir_ / file)) {
        throw InputError(index_path.string() + ": shard " + in_quotes(file) + " of tensor " +
                         in_quotes(name) + " is missing");
      }
      if (!files_.contains(file)) files_.emplace(file, SafetensorsFile(dir_ / file));
    }
    check_index(index, files_, index_path);
  } else {
    refuse_directory(dir_);
  }
  for (const auto& [file_name, file] : files_) {
    for (const auto& entry : file.header().tensors) owner_.emplace(entry.first, &file);
  }
}

CheckpointReader::CheckpointReader(const fs::path& model_dir,
                                   const std::vector<fs::path>& replacements)
    : CheckpointReader(model_dir) {
  for (const fs::path& path : replacements) replacements_.emplace_back(path);
  for (const SafetensorsFile& file : replacements_) {
    for (const auto& entry : file.header().tensors) {
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

bool CheckpointReader::has(const std::string& name) const { return owner_.contains(name); }

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  names.reserve(owner_.size());
  for (const auto& entry : owner_) names.push_back(entry.first);
  return names;
}

std::vector<int64_t> CheckpointReader::shape(const std::string& name) const {
  return file_of(name).header().tensors.at(name).shape;
}

at::Tensor CheckpointReader::get(const std::string& name, at::IntArrayRef expected_shape) const {
  const SafetensorsFile& file = file_of(name);
  const std::string where = file.path().string() + ": tensor " + in_quotes(name);
  const TensorInfo& info = file.header().tensors.at(name);
  if (expected_shape != at::IntArrayRef(info.shape)) {
    throw InputError(
        c10::str(where, " has shape ", at::IntArrayRef(info.shape), ", expected ", expected_shape));
  }
  at::Tensor tensor = file.tensor(name);
  if (!tensor.is_floating_point()) {
    throw InputError(where + " has dtype " + info.dtype +
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
  for (const auto& [name, file] : files_) stamps.emplace(name, file.stamp());
  return stamps;
}

}  // namespace dotresize
