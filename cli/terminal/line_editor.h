// Lines typed by a person: with arrows and a history on a terminal that has them, plain ones
// elsewhere. The prompt and the echo go to stderr, so that stdout holds answers alone.
#pragma once

#include <memory>
#include <string>

namespace hearth::cli {

class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Without its line break; false at the end of the input. Ctrl-C only clears the line.
  bool read(const char* prompt, std::string& line);

 private:
  struct Editor;
  bool read_once(const char* prompt, std::string& line);

  std::unique_ptr<Editor> editor_;  // null: plain lines
};

}  // namespace hearth::cli
