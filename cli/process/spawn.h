// Starts processes of this program, or of another one. A process ends when the thread that started
// it ends.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

struct ChildSpec {
  std::string name;                // in front of its log lines
  std::vector<std::string> words;  // arguments
  std::string program = {};        // path; empty: this one
};

// The process, and the read end of the pipe that carries its stdout and stderr. kIo.
Result<std::pair<pid_t, int>> spawn(const ChildSpec& spec);

// A process whose output is read, by one thread. Its end ends the process.
class Capture {
 public:
  static Result<std::unique_ptr<Capture>> start(const std::vector<std::string>& words);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  int output() const { return output_; }  // a descriptor
  // Once: waits for the end of the process, which has closed its output. Its exit code; -1: a
  // signal ended it.
  int end();

 private:
  Capture(pid_t process, int output) : process_(process), output_(output) {}
  pid_t process_;
  const int output_;
};

}  // namespace hearth::cli
