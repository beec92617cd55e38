// Reads the log of a process while it is written: NAME.log, and what it was before it was full,
// NAME.1.log (the newest of these) and so on. In constant memory.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace hearth::cli {

class LogReader {
 public:
  // Begins with the oldest file that is there.
  explicit LogReader(std::string path);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // All lines that have come since the last call, without their ends; an unfinished one comes with
  // a later call. Follows a file that was renamed or replaced, and begins anew with one that was
  // cut. Ends early on Ctrl-C.
  void read(const std::function<void(std::string_view)>& on_line);

 private:
  void drain(const std::function<void(std::string_view)>& on_line);
  void end_line(const std::function<void(std::string_view)>& on_line);
  // Where what was written after this file was full is to be found; empty: it is written still.
  std::string successor() const;

  std::string path_;
  int file_ = -1;
  std::uint64_t offset_ = 0;
  std::string line_;
};

// The last lines of many, bounded in bytes too.
class LastLines {
 public:
  static constexpr std::size_t kBytes = std::size_t{16} << 20;

  explicit LastLines(std::size_t lines, std::size_t bytes = kBytes)
      : lines_(lines), bytes_(bytes) {}
  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return kept_; }

 private:
  std::size_t lines_;
  std::size_t bytes_;
  std::size_t held_ = 0;
  std::deque<std::string> kept_;
};

}  // namespace hearth::cli
