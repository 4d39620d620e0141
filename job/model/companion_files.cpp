#include "job/model/companion_files.h"

#include <system_error>

#include "base/errors.h"

namespace dotresize {
namespace fs = std::filesystem;

void require_regular_companions(const fs::path& model_dir) {
  for (const char* name : kCompanionFiles) {
    std::error_code error;
    const fs::file_status status = fs::status(model_dir / name, error);
    if (!fs::exists(status) || fs::is_regular_file(status)) continue;
    throw InputError("model.path", (model_dir / name).string() +
                                       " is not a regular file, and the output needs a copy of it");
  }
}

}  // namespace dotresize
