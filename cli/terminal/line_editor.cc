#include "cli/terminal/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "base/limits.h"
#include "cli/terminal/interrupt.h"

namespace hearth::cli {
namespace {

constexpr int kHistoryLines = 1'000;

// libedit decodes what is typed by the locale; text here is UTF-8 whatever the locale says.
void use_utf8() {
  setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
}

// A terminal that was asked with kPasteOn sends pasted text between these marks.
constexpr const char* kPasteOn = "\033[?2004h";
constexpr char kPasteOff[] = "\033[?2004l";
constexpr std::wstring_view kPasteEnd = L"\033[201~";

// Inserts pasted text into the line, with its line breaks, instead of sending line after line.
unsigned char take_paste(EditLine* line, int /*key*/) {
  std::wstring text;
  wchar_t c = L'\0';
  while (!text.ends_with(kPasteEnd)) {
    if (el_wgetc(line, &c) != 1) return CC_EOF;
    text += c == L'\r' ? L'\n' : c;
    if (text.size() > limits::kTextBytes) text.erase(0, text.size() - kPasteEnd.size());
  }
  text.resize(text.size() - kPasteEnd.size());
  return el_winsertstr(line, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

// After the second Ctrl-C, inside a signal handler.
void end_paste_mode() {
  static_cast<void>(!::write(STDERR_FILENO, kPasteOff, sizeof kPasteOff - 1));
}

bool can_edit() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 && terminal != nullptr &&
         *terminal != '\0' && std::strcmp(terminal, "dumb") != 0;
}

}  // namespace

struct LineEditor::Editor {
  EditLine* line = nullptr;
  History* history = nullptr;
  const char* prompt = "";

  static char* show_prompt(EditLine* line) {
    Editor* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    return const_cast<char*>(self->prompt);  // only read; the interface is older than const
  }
  ~Editor() {
    if (line != nullptr) el_end(line);
    if (history != nullptr) history_end(history);
  }
};

LineEditor::LineEditor() {
  if (!can_edit()) return;
  use_utf8();
  auto editor = std::make_unique<Editor>();
  editor->line = el_init("hearth", stdin, stderr, stderr);
  editor->history = history_init();
  if (editor->line == nullptr || editor->history == nullptr) return;
  HistEvent event;
  history(editor->history, &event, H_SETSIZE, kHistoryLines);
  history(editor->history, &event, H_SETUNIQUE, 1);
  el_set(editor->line, EL_CLIENTDATA, editor.get());
  el_set(editor->line, EL_PROMPT, &Editor::show_prompt);
  el_set(editor->line, EL_EDITOR, "emacs");
  el_set(editor->line, EL_HIST, history, editor->history);
  el_source(editor->line, nullptr);  // ~/.editrc, where there is one
  el_set(editor->line, EL_ADDFN, "hearth-paste", "Insert what is pasted", take_paste);
  el_set(editor->line, EL_BIND, "\\e[200~", "hearth-paste", nullptr);
  on_forced_end(end_paste_mode);
  editor_ = std::move(editor);
}

LineEditor::~LineEditor() {
  if (editor_ != nullptr) on_forced_end(nullptr);
}

bool LineEditor::read(const char* prompt, std::string& line) {
  for (;;) {
    if (read_once(prompt, line)) return true;
    if (!interrupted()) return false;
    clear_interrupt();
    std::fputs("\nUse Ctrl-D or /bye to leave.\n", stderr);
  }
}

bool LineEditor::read_once(const char* prompt, std::string& line) {
  if (editor_ == nullptr) {
    std::fputs(prompt, stderr);
    std::fflush(stderr);
    if (std::getline(std::cin, line)) return true;
    if (interrupted()) {
      std::cin.clear();
      clearerr(stdin);
    }
    return false;
  }
  editor_->prompt = prompt;
  int bytes = 0;
  std::fputs(kPasteOn, stderr);
  const char* text = el_gets(editor_->line, &bytes);
  std::fputs(kPasteOff, stderr);
  if (text == nullptr || bytes <= 0) {
    if (interrupted()) el_reset(editor_->line);
    return false;
  }
  line.assign(text, static_cast<std::size_t>(bytes));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  HistEvent event;
  if (line.find_first_not_of(" \t") != std::string::npos) {
    history(editor_->history, &event, H_ENTER, line.c_str());
  }
  return true;
}

}  // namespace hearth::cli
