#include "cli/chat.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "model/untrusted_text.h"

namespace hearth::cli {
namespace {

constexpr const char* kHelp =
    "  \"\"\"                     begin and end a message of several lines\n"
    "  /set system TEXT        what the model is told first\n"
    "  /set parameter NAME V   temperature, top_k, top_p, min_p, seed, num_predict,\n"
    "                          repeat_penalty, presence_penalty, frequency_penalty, stop\n"
    "  /set verbose | quiet    figures after each answer\n"
    "  /show                   the settings\n"
    "  /clear                  forget the conversation\n"
    "  /bye                    leave (also Ctrl-D); Ctrl-C stops an answer\n";

bool parse_number(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && end == text.c_str() + text.size();
}

// One line of the terminal; false at its end. Ctrl-C at the prompt only clears the line.
bool read_line(const char* prompt, std::string& line) {
  for (;;) {
    std::fputs(prompt, stderr);
    std::fflush(stderr);
    if (std::getline(std::cin, line)) return true;
    if (!interrupted()) return false;
    clear_interrupt();
    std::cin.clear();
    clearerr(stdin);
    std::fputs("\nUse Ctrl-D or /bye to leave.\n", stderr);
  }
}

class Chat {
 public:
  Chat(RunOptions options, Answerer& answerer)
      : options_(std::move(options)), answerer_(answerer) {}

  int run() {
    std::string line;
    std::fputs("Send a message (/? for help)\n", stderr);
    while (!left_ && read_line(">>> ", line)) {
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
      if (!read_line("... ", more)) return false;
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
      std::fputs("The conversation is forgotten.\n", stderr);
    } else if (verb == "/show") {
      std::fprintf(stderr,
                   "model %s\ntemperature %g, top_k %u, top_p %g, min_p %g, seed %lld\n"
                   "system: %s\n",
                   options_.model.c_str(), options_.temperature, options_.top_k, options_.top_p,
                   options_.min_p, static_cast<long long>(*options_.seed),
                   options_.system.empty() ? "(the model's own)" : options_.system.c_str());
    } else if (verb == "/set") {
      set(what, words);
    } else {
      std::fprintf(stderr, "Unknown command %s; /? for help.\n", verb.c_str());
    }
  }

  void set(const std::string& what, std::istringstream& words) {
    std::string rest;
    if (what == "verbose" || what == "quiet") {
      options_.verbose = what == "verbose";
    } else if (what == "system") {
      std::getline(words >> std::ws, options_.system);
      history_.clear();
    } else if (what == "parameter") {
      std::string name;
      words >> name;
      std::getline(words >> std::ws, rest);
      if (auto status = set_parameter(options_, name, rest); !status.ok()) {
        std::fprintf(stderr, "%s\n", status.error().message.c_str());
      }
    } else {
      std::fputs("/set system TEXT, /set parameter NAME VALUE, /set verbose, /set quiet\n", stderr);
    }
  }

  void say(const std::string& text) {
    Question question;
    question.seed = static_cast<std::uint64_t>(*options_.seed);
    if (options_.raw) {
      question.raw_prompt = text;
    } else {
      if (!options_.system.empty()) question.messages.push_back({"system", options_.system});
      question.messages.insert(question.messages.end(), history_.begin(), history_.end());
      question.messages.push_back({"user", text});
    }
    clear_interrupt();
    auto answer = answerer_.ask(options_, question, [](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    });
    std::printf("\n\n");
    std::fflush(stdout);
    clear_interrupt();
    if (!answer.ok()) {
      exit_ = fail(answer.error());
      return;
    }
    exit_ = kExitDone;
    history_.push_back({"user", text});
    history_.push_back({"assistant", answer->text});
    if (options_.verbose) print_figures(answer->figures);
  }

  RunOptions options_;
  Answerer& answerer_;
  std::vector<model::ChatMessage> history_;
  bool left_ = false;
  int exit_ = kExitDone;
};

}  // namespace

Status set_parameter(RunOptions& options, const std::string& name, const std::string& value) {
  if (name == "stop") {
    options.stop.push_back(value);
    return ok_status();
  }
  double number = 0.0;
  REQUIRE(parse_number(value, number), "parameter " + name + ": \"" + value + "\" is no number");
  const auto count = [&]() -> bool { return number >= 0 && number <= 1e9; };
  if (name == "temperature") {
    options.temperature = static_cast<float>(number);
  } else if (name == "top_p") {
    options.top_p = static_cast<float>(number);
  } else if (name == "min_p") {
    options.min_p = static_cast<float>(number);
  } else if (name == "repeat_penalty") {
    options.repetition_penalty = static_cast<float>(number);
  } else if (name == "presence_penalty") {
    options.presence_penalty = static_cast<float>(number);
  } else if (name == "frequency_penalty") {
    options.frequency_penalty = static_cast<float>(number);
  } else if (name == "top_k") {
    REQUIRE(count(), "parameter top_k: 0 to 1000000000");
    options.top_k = static_cast<std::uint32_t>(number);
  } else if (name == "num_predict") {
    REQUIRE(count(), "parameter num_predict: 0 to 1000000000");
    options.max_tokens = static_cast<std::uint32_t>(number);
  } else if (name == "seed") {
    REQUIRE(number >= -9e15 && number <= 9e15, "parameter seed: a whole number");
    options.seed = static_cast<std::int64_t>(number);
  } else {
    return Error::invalid("unknown parameter " + name + "; /? lists them");
  }
  return ok_status();
}

int chat_loop(RunOptions options, Answerer& answerer) {
  return Chat(std::move(options), answerer).run();
}

}  // namespace hearth::cli
