#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/unique_fd.h"

namespace dotresize {

/// Exit code of a child that could not execute its program, as in shells.
inline constexpr int kExitCannotExecute = 127;

/// Returns `strings` in the form of exec: a pointer to each, then a null pointer. `strings` must
/// outlive the result.
std::vector<char*> exec_vector(const std::vector<std::string>& strings);

/// Returns the exit code in a waitpid status, or 128 + signal.
int exit_code_of(int wait_status);

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

/// Makes a pipe that children do not inherit by themselves. Throws std::system_error.
Pipe make_pipe();

/// Start of a child. It has no standard input, unless `descriptors` gives it one, and no blocked or
/// ignored signals.
struct ChildStart {
  std::vector<std::string> command;           ///< argument vector, no shell
  std::string program = {};                   ///< file; empty: command[0], found through PATH
  std::vector<std::string> environment = {};  ///< "NAME=value", complete; empty: this process's
  std::vector<std::pair<int, int>> descriptors = {};  ///< ours, and the number that the child has
  std::filesystem::path directory = {};               ///< empty: this process's
  std::optional<mode_t> umask = {};                   ///< absent: this process's
  bool leads_group = false;                           ///< has a process group of its own
  int signal_at_our_end = 0;                          ///< sent to it when this thread ends; 0: none
  bool outlives_us = false;                           ///< the destructor of Child leaves it alone
};

/// A program that this process has started: the only place that starts any.
class Child {
 public:
  /// Throws std::system_error if the program cannot be started.
  explicit Child(const ChildStart& start);
  /// Kills the child unless it has ended or outlives us. Waits for its end for some seconds: a
  /// child that hangs in the kernel, in a file system that does not answer say, must not hang us
  /// too. It is reaped when a later one has been killed.
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;

  pid_t pid() const { return pid_; }
  /// Returns the exit code (exit_code_of) once the child has ended; does not wait.
  std::optional<int> exit_code();
  /// Sends the signal to the child, unless exit_code() has seen its end.
  void signal(int number) const;
  /// Kills the child and, if it leads one, its process group, unless exit_code() has seen its end.
  void kill() const;
  /// Leaves the child to itself, and its end to the caller.
  void let_go() { outlives_us_ = true; }

 private:
  pid_t pid_ = 0;  ///< 0: moved away
  bool leads_group_ = false;
  bool outlives_us_ = false;
  std::optional<int> exit_code_;
};

}  // namespace dotresize
