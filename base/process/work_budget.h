#pragma once

#include <cstddef>

namespace dotresize {

/// Budget of the work that the current thread does for somebody else, such as a request to the
/// server. Work that may take long or much memory asks it on its way, so a caller need not pass it
/// through. Without a budget, as on the command line, work goes on to its end.
class WorkBudget {
 public:
  /// Throws the budget's error if the work must end. Called at each turn of a loop over layers,
  /// files or combinations; never while a lock is held that others wait for.
  static void check() {
    if (current_ != nullptr) current_->on_check();
  }
  /// Counts memory that the work keeps. Throws the budget's error if it is too much.
  static void take(std::size_t bytes) {
    if (current_ != nullptr) current_->on_use(current_->used_ += bytes);
  }
  static bool exists() { return current_ != nullptr; }

  /// Forgets at its end what was taken since its beginning: that memory is free again.
  class Temporary {
   public:
    Temporary() : budget_(current_), before_(budget_ == nullptr ? 0 : budget_->used_) {}
    ~Temporary() {
      if (budget_ != nullptr) budget_->used_ = before_;
    }
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;

   private:
    WorkBudget* const budget_;
    const std::size_t before_;
  };

  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

 protected:
  /// Becomes the thread's budget until its destruction.
  WorkBudget() : outer_(current_) { current_ = this; }
  ~WorkBudget() { current_ = outer_; }

 private:
  virtual void on_check() = 0;
  /// `used`: bytes that the work now has.
  virtual void on_use(std::size_t used) = 0;

  static inline constinit thread_local WorkBudget* current_ = nullptr;
  WorkBudget* const outer_;
  std::size_t used_ = 0;
};

}  // namespace dotresize
