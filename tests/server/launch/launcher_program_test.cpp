#include "server/launch/launcher_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "base/files/unique_fd.h"
#include "base/process/program.h"
#include "server/store/files.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using State = LauncherAnswer::State;

std::map<std::string, LauncherAnswer> answers_in(const std::string& text) {
  return parse_launcher_answers(text, {"a", "b"});
}

LauncherAnswer answer_in(const std::string& attempt) {
  return answers_in(R"({"attempts": {"a": )" + attempt + "}}").at("a");
}

TEST(LauncherAnswers, SayHowAttemptsStand) {
  const auto answers = answers_in(
      R"({"attempts": {"a": {"state": "waiting", "note": "is \u001b[1mPENDING"}, "z": 7}, "more": 1})");
  ASSERT_EQ(answers.size(), 1u) << "b is not known, z was not asked for";
  EXPECT_EQ(answers.at("a").state, State::kWaiting);
  EXPECT_EQ(answers.at("a").note, "is ?[1mPENDING");
  EXPECT_EQ(answer_in(R"({"state": "running"})").state, State::kRunning);
  const LauncherAnswer ended = answer_in(R"({"state": "ended", "exit_code": 65})");
  EXPECT_EQ(ended.state, State::kEnded);
  EXPECT_EQ(ended.exit_code, 65);
  EXPECT_FALSE(ended.failure);
}

TEST(LauncherAnswers, EndOfTheClustersOwnHasCodeAndMessage) {
  const LauncherAnswer lost =
      answer_in(R"({"state": "ended", "code": "LOST", "message": "17 has lost a node"})");
  ASSERT_TRUE(lost.failure);
  EXPECT_EQ(lost.failure->code, "LOST");
  EXPECT_EQ(lost.failure->message, "17 has lost a node");
  EXPECT_NE(lost.exit_code, 0);
}

TEST(LauncherAnswers, AnswerOfAnotherFormIsNoAnswer) {
  const auto fault = [](const std::string& text) -> std::string {
    try {
      answers_in(text);
      return "";
    } catch (const LauncherFault& error) {
      return error.what();
    }
  };
  const auto of_attempt = [&](const std::string& attempt) {
    return fault(R"({"attempts": {"a": )" + attempt + "}}");
  };
  EXPECT_EQ(fault(R"({"attempts": {}})"), "");
  EXPECT_NE(fault(""), "");
  EXPECT_NE(fault("garbage"), "");
  EXPECT_NE(fault("{}"), "");
  EXPECT_NE(fault(R"({"attempts": []})"), "");
  EXPECT_THAT(of_attempt(R"({"state": "gone"})"), HasSubstr("state 'gone' is not one of waiting"));
  EXPECT_THAT(of_attempt(R"({"state": "ended", "code": "BAD", "message": ""})"),
              HasSubstr("code 'BAD' is not one of LOST"));
  for (const char* attempt :
       {"7", "{}", R"({"state": 1})", R"({"state": "running", "note": 1})", R"({"state": "ended"})",
        R"({"state": "ended", "exit_code": 256})", R"({"state": "ended", "exit_code": -1})",
        R"({"state": "ended", "exit_code": "0"})", R"({"state": "ended", "code": "LOST"})"}) {
    EXPECT_NE(of_attempt(attempt), "") << attempt;
  }
}

class LauncherScript : public ::testing::Test {
 protected:
  /// A launcher that runs these shell commands; "$1" is the verb.
  LauncherProgram launcher(const std::string& commands, std::chrono::seconds limit = 20s) const {
    const std::filesystem::path file = home_ / "launcher";
    std::ofstream(file) << "#!/bin/sh\n" << commands << "\n";
    ::chmod(file.c_str(), 0700);
    return LauncherProgram{file, limit};
  }
  std::string content(const char* name) const { return read_chunk(home_ / name, 0, 1 << 16); }

  const TemporaryDirectory home_;
  const std::stop_source stop_;
};

TEST_F(LauncherScript, HasTheRequestAndTheEnvironmentAndNoArguments) {
  const std::string file = (home_ / "seen").string();
  ::setenv("OF_THE_SITE", "a b", 1);
  const LauncherProgram program =
      launcher("{ echo \"$@,$OF_THE_SITE,${DOTRESIZE_PROGRAMS:+set}\"; cat; } >" + file);
  ::unsetenv("OF_THE_SITE");
  const UniqueFd lock = try_lock_file(home_ / "lock");
  ::setenv("OF_THE_SITE", "a b", 1);
  program.submit(R"({"name": "a"})", lock.get(), stop_.get_token());
  EXPECT_EQ(content("seen"), "submit,a b,set\n{\"name\": \"a\"}");
  program.cancel("a", "/f", stop_.get_token());
  EXPECT_EQ(content("seen"), "cancel,a b,set\n{\"folder\":\"/f\",\"name\":\"a\"}");
  ::unsetenv("OF_THE_SITE");
}

TEST_F(LauncherScript, FolderOfTheProgramsIsThatOfThisProgramAlone) {
  const LauncherProgram program =
      launcher("tr '\\0' '\\n' </proc/$$/environ | grep ^DOTRESIZE_PROGRAMS= >" +
               (home_ / "seen").string() + "; echo '{\"attempts\": {}}'");
  ::setenv("DOTRESIZE_PROGRAMS", "/of/another/installation", 1);
  program.status({}, stop_.get_token());
  ::unsetenv("DOTRESIZE_PROGRAMS");
  EXPECT_EQ(content("seen"), "DOTRESIZE_PROGRAMS=" + folder_of_this_program().string() + "\n");
}

TEST_F(LauncherScript, StatusIsOneQuestionForAllAttempts) {
  const LauncherProgram program = launcher(
      "cat >&2; echo '{\"attempts\": {\"a\": {\"state\": \"running\"}}}'; test \"$1\" = status");
  const auto answers = program.status({{"a", "/1"}, {"b", "/2"}}, stop_.get_token());
  EXPECT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers.at("a").state, State::kRunning);
}

TEST_F(LauncherScript, ExitCode65RefusesAndAnyOtherIsNoAnswer) {
  const UniqueFd lock = try_lock_file(home_ / "lock");
  const auto submit = [&](const std::string& commands) {
    launcher(commands).submit("{}", lock.get(), stop_.get_token());
  };
  submit("exit 0");
  EXPECT_THAT([&] { submit("echo first >&2; echo no such partition >&2; exit 65"); },
              ThrowsMessage<LauncherRefusal>("no such partition"));
  EXPECT_THAT([&] { submit("echo busy >&2; exit 1"); }, ThrowsMessage<LauncherFault>("busy"));
  EXPECT_THAT([&] { submit("exit 64"); },
              ThrowsMessage<LauncherFault>("submit ended with exit code 64"));
  EXPECT_THAT([&] { submit("kill -9 $$"); },
              ThrowsMessage<LauncherFault>("submit ended with exit code 137"));
  EXPECT_THAT([&] { launcher("exit 65").status({}, stop_.get_token()); },
              ThrowsMessage<LauncherFault>("status ended with exit code 65"));
  const std::string missing = (home_ / "missing").string();
  EXPECT_THAT(
      [&] { LauncherProgram{missing}.cancel("a", "/", stop_.get_token()); },
      ThrowsMessage<LauncherFault>("cannot start " + missing + ": No such file or directory"));
}

TEST_F(LauncherScript, IsKilledWithItsChildrenWhenItTakesTooLong) {
  const std::string file = (home_ / "child").string();
  const LauncherProgram program =
      launcher("sh -c 'echo $$ >" + file + "; exec sleep 300' & wait", 1s);
  EXPECT_THAT([&] { program.status({}, stop_.get_token()); },
              ThrowsMessage<LauncherFault>("status did not end within 1 s"));
  const int child = std::stoi(content("child"));
  std::string state = "?";
  for (int i = 0; i < 100 && state != "gone"; ++i) {
    const std::string line = read_chunk("/proc/" + std::to_string(child) + "/stat", 0, 4096);
    state = line.empty() || line.find(") Z ") != std::string::npos ? "gone" : line;
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(state, "gone");
}

TEST_F(LauncherScript, IsNotWaitedForBecauseOfWhatItLeavesBehind) {
  const LauncherProgram program = launcher("sleep 30 & echo '{\"attempts\": {}}'", 60s);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(program.status({}, stop_.get_token()).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST_F(LauncherScript, TooLongAnAnswerIsRefused) {
  EXPECT_THAT([&] { launcher("head -c 20000000 /dev/zero").status({}, stop_.get_token()); },
              ThrowsMessage<LauncherFault>("status wrote more than 16 MiB"));
}

TEST_F(LauncherScript, StopLeavesASubmissionToItsEndWithItsLock) {
  const LauncherProgram program = launcher("sleep 2; echo done >" + (home_ / "done").string(), 60s);
  std::stop_source stop;
  UniqueFd lock = try_lock_file(home_ / "lock");
  std::jthread stopper([&] {
    std::this_thread::sleep_for(300ms);
    stop.request_stop();
  });
  EXPECT_THROW(program.submit("{}", lock.get(), stop.get_token()), LauncherFault);
  lock = UniqueFd();
  EXPECT_FALSE(try_lock_file(home_ / "lock")) << "it still submits";
  UniqueFd free;
  for (int i = 0; i < 100 && !free; ++i) {
    std::this_thread::sleep_for(100ms);
    free = try_lock_file(home_ / "lock");
  }
  EXPECT_TRUE(free);
  EXPECT_EQ(content("done"), "done\n");
}

}  // namespace
}  // namespace dotresize
