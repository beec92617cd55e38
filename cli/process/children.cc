#include "cli/process/children.h"

#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <set>
#include <utility>

#include "cli/process/process_log.h"

namespace hearth::cli {
namespace {

namespace asio = boost::asio;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kFirstBackoff{200};
constexpr Milliseconds kLastBackoff{5000};
// A child that lived this long starts again with the shortest delay.
constexpr auto kHealthy = std::chrono::seconds(10);
constexpr std::size_t kLineBytes = 4096;
constexpr std::size_t kLinesKnown = 64;

std::string ending(int status) {
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

// The lines that were written by a program that is not ours: a program that is started again and
// again writes the same lines each time, and only the first time is news.
using SaidLines = std::set<std::string>;
bool is_new(SaidLines& said, const std::string& line) {
  if (said.size() >= kLinesKnown) said.clear();
  return said.insert(line).second;
}

// Copies a child's log to ours, line by line; a line without an end is cut.
class LogCopy : public std::enable_shared_from_this<LogCopy> {
 public:
  // `said`: lines that are not repeated; null: every line is copied.
  LogCopy(asio::io_context& io, int descriptor, std::string name, std::shared_ptr<SaidLines> said)
      : source_(io, descriptor), name_(std::move(name)), said_(std::move(said)) {}

  void read() {
    source_.async_read_some(
        asio::buffer(buffer_),
        [self = shared_from_this()](const boost::system::error_code& error, std::size_t bytes) {
          self->copy({self->buffer_.data(), bytes});
          if (!error) return self->read();
          if (!self->line_.empty()) self->print();
        });
  }

 private:
  void copy(std::string_view text) {
    for (const char c : text) {
      if (c != '\n') line_ += c;
      if (c == '\n' || line_.size() >= kLineBytes) print();
    }
  }
  void print() {
    if (said_ == nullptr || is_new(*said_, line_)) log_child_line(name_, line_);
    line_.clear();
  }

  asio::posix::stream_descriptor source_;
  std::string name_;
  std::shared_ptr<SaidLines> said_;
  std::string line_;
  std::array<char, 4096> buffer_{};
};

}  // namespace

class Children::Child {
 public:
  Child(asio::io_context& io, ChildSpec spec)
      : io_(io),
        spec_(std::move(spec)),
        said_(spec_.program.empty() ? nullptr : std::make_shared<SaidLines>()),
        timer_(io) {}

  void start() {
    started_ = std::chrono::steady_clock::now();
    const auto spawned = spawn(spec_);
    if (!spawned) {
      spdlog::error("{}: {}", spec_.name, spawned.error().message);
      return start_later();
    }
    pid_ = spawned->first;
    spdlog::debug("{}: process {}", spec_.name, pid_);
    std::make_shared<LogCopy>(io_, spawned->second, spec_.name, said_)->read();
  }

  // Checks whether the child has ended, and starts it again unless `stopping`.
  void reap(bool stopping) {
    int status = 0;
    if (pid_ == 0 || waitpid(pid_, &status, WNOHANG) != pid_) return;
    pid_ = 0;
    if (stopping) return;
    if (std::chrono::steady_clock::now() - started_ > kHealthy) backoff_ = kFirstBackoff;
    if (said_ == nullptr) {
      spdlog::warn("{} {}; restarting in {} ms", spec_.name, ending(status), backoff_.count());
    } else if (is_new(*said_, ending(status))) {
      spdlog::warn("{} {}; restarting until it stays up", spec_.name, ending(status));
    }
    start_later();
  }

  void stop() {
    timer_.cancel();
    stopped_ = true;
    if (pid_ != 0) ::kill(pid_, SIGTERM);
  }
  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  bool running() const { return pid_ != 0; }
  pid_t process() const { return pid_; }

 private:
  void start_later() {
    timer_.expires_after(backoff_);
    backoff_ = std::min(2 * backoff_, kLastBackoff);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error && !stopped_) start();
    });
  }

  asio::io_context& io_;
  ChildSpec spec_;
  const std::shared_ptr<SaidLines> said_;
  asio::steady_timer timer_;
  Milliseconds backoff_ = kFirstBackoff;
  std::chrono::steady_clock::time_point started_;
  pid_t pid_ = 0;
  bool stopped_ = false;
};

struct Children::State {
  explicit State(asio::io_context& context) : io(context), signals(context, SIGCHLD) {}
  static void watch(const std::shared_ptr<State>& state) {
    state->signals.async_wait([state](const boost::system::error_code& error, int) {
      if (error) return;
      for (auto& child : state->children) child->reap(state->stopping);
      watch(state);
    });
  }
  asio::io_context& io;
  asio::signal_set signals;
  std::vector<std::unique_ptr<Child>> children;
  bool stopping = false;
};

Children::Children(asio::io_context& io) : state_(std::make_shared<State>(io)) {
  State::watch(state_);
}

Children::~Children() {
  state_->signals.cancel();
  stop();
  for (auto& child : state_->children) child->end();
}

void Children::start(std::vector<ChildSpec> specs) {
  for (ChildSpec& spec : specs) {
    state_->children.push_back(std::make_unique<Child>(state_->io, std::move(spec)));
    state_->children.back()->start();
  }
}

void Children::stop() {
  state_->stopping = true;
  for (auto& child : state_->children) child->stop();
}

std::size_t Children::running() const { return processes().size(); }

std::vector<pid_t> Children::processes() const {
  std::vector<pid_t> all;
  for (const auto& child : state_->children) {
    if (child->running()) all.push_back(child->process());
  }
  return all;
}

}  // namespace hearth::cli
