#include "worker/commands/run/dense_loss.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/text/checked_json.h"
#include "worker/commands/run/output/fingerprints.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr char kOption[] = "--dense-loss";
constexpr size_t kMaxBytes = 16 << 20;

/// Returns the loss in the file as JSON text; empty if there is no file.
std::string read_checked(const fs::path& file, const Json& fingerprint) {
  if (!fs::exists(file)) return "";
  const Json found = read_json_object(file, kMaxBytes);
  const std::string what =
      difference(fingerprint, found.value("of", Json::object()), file.filename().string());
  if (!what.empty()) throw InputError(kOption, file.string() + " is another loss: " + what);
  const Json nll = found.value("nll", Json());
  const Json tokens = found.value("tokens", Json());
  if (!nll.is_number() || !tokens.is_number_integer() || tokens < 1) {
    throw InputError(kOption, file.string() + " is damaged: it has no loss");
  }
  return Json{{"nll", nll}, {"tokens", tokens}}.dump();
}

}  // namespace

std::optional<NegativeLogLikelihood> read_dense_loss(Communicator& comm, const fs::path& file,
                                                     const Json& fingerprint) {
  const std::string text =
      broadcast_string(comm, comm.rank() == 0 ? read_checked(file, fingerprint) : "", 0);
  if (text.empty()) return std::nullopt;
  const Json loss = Json::parse(text);
  return NegativeLogLikelihood{loss.at("nll"), loss.at("tokens")};
}

void write_dense_loss(const fs::path& file, const Json& fingerprint,
                      const NegativeLogLikelihood& loss) {
  const Json content = {{"of", fingerprint}, {"nll", loss.nll}, {"tokens", loss.tokens}};
  write_file_atomically(file, content.dump(2) + "\n");
}

}  // namespace dotresize
