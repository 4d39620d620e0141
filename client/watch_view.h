#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "client/terminal.h"
#include "client/watch.h"

namespace dotresize {

/// A line at the bottom of stderr that is redrawn in place, for terminals.
class BarView : public WatchObserver {
 public:
  explicit BarView(const Terminal& terminal) : terminal_(terminal) {}
  ~BarView() override;

  void connected(const v1::Job& job) override;
  void event(const v1::Event& event) override;
  void disconnected(const std::string& why) override;
  void tick() override;

 private:
  using Clock = std::chrono::steady_clock;

  void draw();
  void show(const std::string& line);
  void print_above(const std::string& line);

  Terminal terminal_;
  v1::Progress progress_;
  Clock::time_point progress_time_ = Clock::now();
  std::string status_;  ///< shown instead of a bar
  std::string shown_;
  bool introduced_ = false;
};

/// A line on stderr for each change of state or phase, and every so often in between: for logs.
class LineView : public WatchObserver {
 public:
  void connected(const v1::Job& job) override;
  void event(const v1::Event& event) override;
  void disconnected(const std::string& why) override;
  void tick() override {}

 private:
  using Clock = std::chrono::steady_clock;

  std::string phase_;
  Clock::time_point printed_;
  bool introduced_ = false;
  bool away_ = false;
};

/// Every event as one line of JSON on stdout.
class JsonView : public WatchObserver {
 public:
  void connected(const v1::Job&) override {}
  void event(const v1::Event& event) override;
  void disconnected(const std::string&) override {}
  void tick() override {}
};

/// BarView or LineView, as stderr is.
std::unique_ptr<WatchObserver> progress_view();

}  // namespace dotresize
