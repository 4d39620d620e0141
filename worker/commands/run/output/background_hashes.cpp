#include "worker/commands/run/output/background_hashes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/sha256.h"

namespace dotresize {

BackgroundHashes::BackgroundHashes(
    const Communicator& comm, const std::vector<std::filesystem::path>& files,
    std::function<void(const std::filesystem::path&, const std::string&)> keep) {
  std::vector<std::filesystem::path> mine;
  for (auto i = static_cast<size_t>(comm.rank()); i < files.size();
       i += static_cast<size_t>(comm.size())) {
    mine.push_back(files[i]);
  }
  std::packaged_task<Hashes(std::stop_token)> task(
      [mine = std::move(mine), keep = std::move(keep)](const std::stop_token& stop) {
        Hashes hashes;
        for (const auto& file : mine) {
          const std::string name = file.filename().string();
          hashes[name] = sha256_of_file(file, stop);
          if (keep) keep(file, hashes[name]);
        }
        return hashes;
      });
  mine_ = task.get_future();
  thread_ = std::jthread(std::move(task));
}

BackgroundHashes::Hashes BackgroundHashes::gather(Communicator& comm) {
  const nlohmann::json mine = mine_.get();
  Hashes all;
  for (const std::string& text : gather_strings(comm, mine.dump(), 0)) {
    all.merge(nlohmann::json::parse(text).get<Hashes>());
  }
  return all;
}

}  // namespace dotresize
