#include "cli/process/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "cli/process/log_files.h"
#include "cli/terminal/interrupt.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kLineBytes = std::size_t{64} << 10;  // a longer line comes in pieces

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool is_file(const std::string& path, const struct stat& wanted) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && same_file(found, wanted);
}

// A descriptor, or -1 where there is no plain file.
int open_log(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat state {};
  if (file >= 0 && (fstat(file, &state) != 0 || !S_ISREG(state.st_mode))) {
    ::close(file);
    return -1;
  }
  return file;
}

std::string oldest_name(const std::string& path) {
  for (std::uint32_t age = kLogFilesBefore; age > 0; --age) {
    struct stat state {};
    std::string name = log_file_name(path, age);
    if (stat(name.c_str(), &state) == 0) return name;
  }
  return path;
}

// Looked for twice: meanwhile each may have become the next older one.
int open_oldest(const std::string& path) {
  for (;;) {
    const int file = open_log(oldest_name(path));
    struct stat state {};
    if (file < 0 || fstat(file, &state) != 0 || is_file(oldest_name(path), state)) return file;
    ::close(file);
  }
}

}  // namespace

LogReader::LogReader(std::string path) : path_(std::move(path)), file_(open_oldest(path_)) {}

LogReader::~LogReader() {
  if (file_ >= 0) ::close(file_);
}

void LogReader::end_line(const std::function<void(std::string_view)>& on_line) {
  if (!line_.empty()) on_line(line_);
  line_.clear();
}

void LogReader::drain(const std::function<void(std::string_view)>& on_line) {
  struct stat state {};
  if (fstat(file_, &state) == 0 && static_cast<std::uint64_t>(state.st_size) < offset_) {
    offset_ = 0;  // it was cut
    line_.clear();
  }
  std::array<char, 16'384> piece;
  while (!interrupted()) {
    const ssize_t got = pread(file_, piece.data(), piece.size(), static_cast<off_t>(offset_));
    if (got <= 0) return;
    offset_ += static_cast<std::uint64_t>(got);
    for (const char c : std::string_view(piece.data(), static_cast<std::size_t>(got))) {
      if (c != '\n') line_ += c;
      if (c == '\n' && line_.empty()) on_line("");
      if (c == '\n' || line_.size() >= kLineBytes) end_line(on_line);
    }
  }
}

std::string LogReader::successor() const {
  struct stat ours {};
  if (fstat(file_, &ours) != 0) return path_;
  for (std::uint32_t age = 0; age <= kLogFilesBefore; ++age) {
    if (!is_file(log_file_name(path_, age), ours)) continue;
    return age == 0 ? "" : log_file_name(path_, age - 1);
  }
  return path_;  // ours was removed: whatever is there now
}

void LogReader::read(const std::function<void(std::string_view)>& on_line) {
  if (file_ < 0) file_ = open_oldest(path_);
  if (file_ < 0) return;
  for (;;) {
    drain(on_line);
    if (interrupted()) return;
    const std::string next = successor();
    if (next.empty()) return;
    drain(on_line);  // what came between its end and its renaming
    const int file = open_log(next);
    if (file < 0) return;       // between two renamings; a later call finds it
    if (successor() != next) {  // renamed meanwhile: it may be one too new
      ::close(file);
      continue;
    }
    ::close(file_);
    file_ = file;
    offset_ = 0;
    end_line(on_line);
  }
}

void LastLines::add(std::string_view line) {
  if (lines_ == 0) return;
  kept_.emplace_back(line);
  held_ += line.size();
  while (kept_.size() > lines_ || (held_ > bytes_ && kept_.size() > 1)) {
    held_ -= kept_.front().size();
    kept_.pop_front();
  }
}

}  // namespace hearth::cli
