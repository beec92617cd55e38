// The interactive chat of `hearth run MODEL`, with the commands of ollama: see kHelp. A message of
// several lines begins and ends with """.

#include <cstdio>
#include <sstream>

#include "cli/command/nearest.h"
#include "cli/run/answer.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/line_editor.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::cli {
namespace {

constexpr const char* kHelp =
    "  \"\"\"                     begin and end a message of several lines\n  /set                 "
    "   the parameters and their values\n  /set NAME VALUE         change one: temperature (temp), "
    "top_k, top_p, min_p, seed,\n                          num_predict (n), repeat_penalty, "
    "presence_penalty,\n                          frequency_penalty, stop\n  /set system TEXT      "
    "  the system prompt\n  /set verbose | quiet    figures after each answer\n  /show             "
    "      the settings\n  /clear                  clear the conversation\n  /bye                  "
    "  leave (also Ctrl-D); Ctrl-C stops an answer\n  /help, /?               this text\n";

class Chat {
 public:
  Chat(RunOptions options, Answerer& answerer)
      : options_(std::move(options)), answerer_(answerer) {}

  int run() {
    std::string line;
    std::fputs("Send a message (/? for help)\n", stderr);
    while (!left_ && lines_.read(">>> ", line)) {
      if (line.starts_with("\"\"\"")) {
        if (!read_block(line)) break;
      } else if (line.starts_with("/")) {
        command(line);
        continue;
      }
      if (line.find_first_not_of(" \t\n") == std::string::npos) continue;
      if (!model::is_utf8(line)) {
        std::fputs("That is not valid UTF-8; nothing was sent.\n", stderr);
        continue;
      }
      say(line);
    }
    return exit_;
  }

 private:
  bool read_block(std::string& line) {
    std::string text = line.substr(3);
    while (!text.ends_with("\"\"\"")) {
      std::string more;
      if (!lines_.read("... ", more)) return false;
      text += "\n" + more;
    }
    text.resize(text.size() - 3);
    line = text;
    return true;
  }

  void command(const std::string& line) {
    std::istringstream words(line);
    std::string verb, what, name;
    words >> verb >> what;
    if (verb == "/bye" || verb == "/exit") {
      left_ = true;
    } else if (verb == "/?" || verb == "/help") {
      std::fputs(kHelp, stderr);
    } else if (verb == "/clear") {
      history_.clear();
      std::fputs("The conversation is cleared.\n", stderr);
    } else if (verb == "/show") {
      std::fprintf(stderr, "model %s\nsystem: %s\n", options_.model.c_str(),
                   options_.system.empty() ? "(the model's own)" : options_.system.c_str());
      list_parameters();
    } else if (verb == "/set") {
      set(what, words);
    } else {
      const std::vector<std::string> known = {"/set", "/show", "/clear", "/help", "/bye"};
      std::fprintf(stderr, "Unknown command %s%s\n", escape_control(verb).c_str(),
                   did_you_mean(verb, known).c_str());
    }
  }

  void list_parameters() const {
    for (const std::string& line : parameter_lines(options_)) {
      std::fprintf(stderr, "%s\n", line.c_str());
    }
  }

  void set(std::string what, std::istringstream& words) {
    if (what == "verbose" || what == "quiet") {
      options_.verbose = what == "verbose";
      return;
    }
    std::string value;
    if (what == "system") {
      std::getline(words >> std::ws, options_.system);
      history_.clear();
      return;
    }
    if (what == "parameter") {  // as in ollama; the word may be left out
      what.clear();
      words >> what;
    }
    if (what.empty()) return list_parameters();
    std::getline(words >> std::ws, value);
    while (value.ends_with(' ') || value.ends_with('\t')) value.pop_back();
    if (const Status status = set_parameter(options_, what, value); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.error().message.c_str());
    }
  }

  void say(const std::string& text) {
    const Question question = question_of(options_, history_, text);
    clear_interrupt();
    auto answer = answerer_.ask(options_, question, print_foreign);
    print_foreign("\n\n");
    clear_interrupt();
    if (!answer.ok()) {
      exit_ = fail(answer.error());
      return;
    }
    if (print_verified(answer->verified)) print_foreign(answer->text + "\n\n");
    exit_ = answer->verified.is_doubtful() ? kExitVerification : kExitDone;
    history_.push_back({"user", text});
    history_.push_back({"assistant", answer->text});
    if (options_.verbose) print_figures(answer->figures);
  }

  LineEditor lines_;
  RunOptions options_;
  Answerer& answerer_;
  std::vector<model::ChatMessage> history_;
  bool left_ = false;
  int exit_ = kExitDone;
};

}  // namespace

int chat_loop(RunOptions options, Answerer& answerer) {
  return Chat(std::move(options), answerer).run();
}

}  // namespace hearth::cli
