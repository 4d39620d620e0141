#include "server/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/errors.h"
#include "base/process/program.h"
#include "server/access/endpoint.h"
#include "server/store/state_dir.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

class Options : public ::testing::Test {
 protected:
  ~Options() override { ::unsetenv("DOTRESIZE_MAX_RANKS"); }

  std::string config(const std::string& text) const {
    const std::filesystem::path file = home_.path() / "server.yaml";
    std::ofstream(file) << text;
    return file.string();
  }
  static ServerOptions parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "dotresize-server");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    return parse_options(static_cast<int>(argv.size()), argv.data());
  }
  static int exit_code(const std::vector<std::string>& arguments) {
    try {
      parse(arguments);
      return -1;
    } catch (const ExitNow& exit) {
      return exit.code;
    }
  }

  TemporaryDirectory home_;
};

TEST_F(Options, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const std::string file = config("max_ranks: 3\nheartbeat_timeout: 30\n");
  EXPECT_EQ(parse({}).limits.max_ranks, 8);
  EXPECT_EQ(parse({"--config", file}).limits.max_ranks, 3);
  ::setenv("DOTRESIZE_MAX_RANKS", "4", 1);
  EXPECT_EQ(parse({"--config", file}).limits.max_ranks, 4);
  EXPECT_EQ(parse({"--config", file, "--max-ranks", "5"}).limits.max_ranks, 5);
  EXPECT_EQ(parse({"--config", file}).limits.heartbeat_timeout.count(), 30);
}

TEST_F(Options, WhatIsGivenMustNotBeEmpty) {
  for (const char* option : {"--tokens", "--tls", "--allow-root", "--webhook-secret", "--http"}) {
    EXPECT_EQ(exit_code({option, ""}), kExitUsage) << option;
  }
  EXPECT_EQ(exit_code({"--config", config("tokens: \"\"\nlisten: 127.0.0.1:0\n")}), kExitUsage);
  for (const auto& [variable, separators] :
       {std::pair("DOTRESIZE_ALLOW_ROOT", ":"), std::pair("DOTRESIZE_ALLOW_REMOTE", " "),
        std::pair("DOTRESIZE_ALLOW_WEBHOOK", "  ")}) {
    ::setenv(variable, separators, 1);
    EXPECT_EQ(exit_code({}), kExitUsage) << variable;
    ::setenv(variable, "", 1);  // as if it were not set
    EXPECT_EQ(exit_code({}), -1) << variable;
    ::unsetenv(variable);
  }
}

TEST_F(Options, BadValuesAreUsageErrorsWhereverTheyStand) {
  EXPECT_EQ(exit_code({"--listen", "nowhere"}), kExitUsage);
  EXPECT_EQ(exit_code({"--listen", "host:70000"}), kExitUsage);
  EXPECT_EQ(exit_code({"--max-ranks", "0"}), kExitUsage);
  EXPECT_EQ(exit_code({"--config", config("max_ranks: many\n")}), kExitUsage);
  EXPECT_EQ(exit_code({"--config", config("max_rank: 3\n")}), kExitUsage);
  EXPECT_EQ(exit_code({"--config", config("config: other\n")}), kExitUsage);
  EXPECT_EQ(exit_code({"--config", config("[1, 2")}), kExitUsage);
  EXPECT_EQ(exit_code({"--help"}), kExitOk);
}

TEST_F(Options, EveryFaultOfAFileIsNamedWithItsLine) {
  const std::string file = config("max_ranks: many\nlisten: 127.0.0.1:0\nmax_atempts: 3\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code({"--config", file}), kExitUsage);
  const std::string faults = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(faults.starts_with("dotresize-server: error: " + file + ":1: max_ranks: ")) << faults;
  EXPECT_NE(faults.find(file + ":3: max_atempts: unknown key, did you mean max_attempts?"),
            std::string::npos)
      << faults;
}

TEST_F(Options, LaunchersAreNamesWithOrWithoutAProgram) {
  const auto launchers = [](const std::vector<std::string>& arguments) {
    std::vector<std::string> texts;
    for (const LauncherChoice& choice : parse(arguments).launch.launchers) {
      texts.push_back(choice.name + "=" + choice.program.string());
    }
    return texts;
  };
  using Texts = std::vector<std::string>;
  const auto packaged =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
      "share/dotresize/launchers";
  EXPECT_EQ(launchers({}), Texts{"local="});
  const std::string file = config("launcher: [local, slurm, pbs=/opt/pbs launcher]\n");
  EXPECT_EQ(launchers({"--config", file}),
            (Texts{"local=", "slurm=" + (packaged / "slurm").string(), "pbs=/opt/pbs launcher"}));
  EXPECT_EQ(launchers({"--launcher", "external,local"}), (Texts{"external=", "local="}));
  EXPECT_EQ(launchers({"--launcher", "pbs=bin/pbs"}),
            Texts{"pbs=" + std::filesystem::absolute("bin/pbs").string()});
}

TEST_F(Options, LaunchersThatCannotBeAreRefused) {
  for (const char* launcher : {"", "Slurm", "1", "-a", "a_b", "../slurm", "slurm=", "=/bin/true",
                               "local=/bin/true", "external=/bin/true", "slurm,slurm=/bin/true",
                               "a-name-that-is-far-longer-than-it-may-be"}) {
    EXPECT_EQ(exit_code({"--launcher", launcher}), kExitUsage) << launcher;
  }
}

TEST_F(Options, LogTakesALevelAndTheFormatInAnyOrder) {
  const auto log = [](const std::vector<std::string>& arguments) {
    const LogOptions options = parse(arguments).log;
    return options.level + (options.format == LogFormat::kJson ? " json" : " text");
  };
  EXPECT_EQ(log({}), "info text");
  EXPECT_EQ(log({"--log", "debug"}), "debug text");
  EXPECT_EQ(log({"--log", "json"}), "info json");
  EXPECT_EQ(log({"--log", "warn,json"}), "warn json");
  EXPECT_EQ(log({"--config", config("log: json,error\n")}), "error json");
  for (const char* wrong : {"", "xml", "info,debug", "text"}) {
    EXPECT_EQ(exit_code({"--log", wrong}), kExitUsage) << wrong;
  }
}

TEST(StateDirectory, ThatCannotBeMadeIsASentence) {
  const TemporaryDirectory home;
  home.write("file", "");
  try {
    StateDir(home / "file/state");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("filesystem error"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("--state: cannot make the state directory"),
              std::string::npos);
  }
}

TEST(StateDirectory, KeepsTokensThatWereUsedLately) {
  const TemporaryDirectory home;
  const auto root = home / "state";
  const std::filesystem::path cache = StateDir(root).tokens / ".dotresize-cache";
  std::filesystem::create_directory(cache);
  for (const char* name : {"old", "new"}) std::ofstream(cache / name) << "tokens";
  std::filesystem::last_write_time(
      cache / "old", std::filesystem::file_time_type::clock::now() - std::chrono::days(31));
  const StateDir again(root);
  EXPECT_FALSE(std::filesystem::exists(cache / "old"));
  EXPECT_TRUE(std::filesystem::exists(cache / "new"));
}

TEST(Loopback, IsAnAddressOrLocalhostAndNoOtherName) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.0.1", "[::1]"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"127.example.com", "127.0.0.1.example.com", "0.0.0.0", "10.0.0.1", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace dotresize
