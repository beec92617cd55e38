#include "cli/run/run.h"

#include <unistd.h>

#include <boost/algorithm/string/join.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/limits.h"
#include "base/private_file.h"
#include "base/random.h"
#include "cli/models/models.h"
#include "cli/run/answer.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/worker/known_answers.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::cli {
namespace {

constexpr std::uint32_t kRawMaxTokens = 128;  // a raw prompt has no natural end

Result<std::string> read_stdin() {
  std::string text;
  char buffer[64 * 1024];
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count < 0) return Error{ErrorCode::kIo, "cannot read standard input"};
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
    REQUIRE(text.size() <= limits::kTextBytes, "the prompt is larger than ", limits::kTextBytes,
            " bytes, the limit");
  }
}

void print_ids(const std::vector<TokenId>& ids) {
  std::string line;
  for (const TokenId id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
  succeed(line);
}

void print_json(const RunOptions& options, const Answer& answer) {
  nlohmann::json line = {{"model", options.model},
                         {"text", answer.text},
                         {"token_ids", answer.token_ids},
                         {"finish_reason", answer.finish_reason},
                         {"seed", answer.figures.seed},
                         {"prompt_tokens", answer.figures.prompt_tokens},
                         {"cached_tokens", answer.figures.cached_tokens},
                         {"completion_tokens", answer.figures.generated_tokens},
                         {"seconds_to_first_token", answer.figures.prompt_seconds},
                         {"seconds", answer.figures.total_seconds}};
  if (answer.figures.credits) line["credits"] = *answer.figures.credits;
  if (!answer.receipt.empty()) line["receipt"] = answer.receipt;
  if (!answer.verified.object.is_null()) line.update(answer.verified.object);
  succeed(escape_json(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

Status write_hashes(const std::string& path, const std::vector<HashLine>& hashes) {
  std::ofstream file(path);
  for (const HashLine& line : hashes) {
    const nlohmann::ordered_json json = {{"step", line.step},
                                         {"stage", line.stage},
                                         {"layers", {line.layer_begin, line.layer_end}},
                                         {"in", line.in},
                                         {"out", line.out}};
    file << json.dump() << "\n";
  }
  file.close();
  if (!file) return Error::of(ErrorCode::kIo, "cannot write ", path);
  return ok_status();
}

// Without a name, the served model answers; with --local, the only pulled model does. A single word
// that contains a blank is a prompt, because no name of a served model contains one.
Status choose_model(RunOptions& options) {
  if (!options.local) {
    if (options.prompt.empty() && options.model.find(' ') != std::string::npos) {
      options.prompt.push_back(std::exchange(options.model, {}));
    }
    return ok_status();
  }
  if (!options.model.empty()) return ok_status();
  const auto models = list_models();
  REQUIRE(!models.empty(),
          "no model given, and no model on this disk: hearth pull MODEL, then hearth run --local "
          "MODEL");
  std::vector<std::string> names;
  for (const LocalModel& each : models) names.push_back(each.name);
  REQUIRE(names.size() == 1, "no model is given; name one: ", boost::algorithm::join(names, ", "));
  options.model = names.front();
  return ok_status();
}

Result<int> one_shot(const RunOptions& options, Answerer& answerer, const std::string& prompt) {
  const bool text = !options.token_ids && !options.json;
  // Text in a pipe or a file cannot be retracted, so it is written only after the verification.
  const bool streams = text && (options.verify != "full" || isatty(STDOUT_FILENO) == 1);
  bool wrote = false;
  auto answer = answerer.ask(options, question_of(options, {}, prompt), [&](std::string_view text) {
    if (!streams) return;
    wrote = true;
    print_foreign(text);
  });
  if (!answer.ok()) {
    if (wrote) print_foreign("\n");
    return answer.error();
  }
  if (options.token_ids) print_ids(answer->token_ids);
  if (options.json) print_json(options, *answer);
  if (text) print_foreign(streams ? "\n" : answer->text + "\n");
  if (print_verified(answer->verified) && streams) print_foreign(answer->text + "\n");
  if (!options.hashes_file.empty()) TRY_VOID(write_hashes(options.hashes_file, answer->hashes));
  if (!options.receipt_file.empty()) TRY_VOID(write_receipt(options.receipt_file, answer->saved));
  if (options.verbose) print_figures(answer->figures);
  if (answer->finish_reason == "cancelled") return kExitInterrupted;
  return answer->verified.is_doubtful() ? kExitVerification : kExitDone;
}

}  // namespace

Question question_of(const RunOptions& options, const std::vector<model::ChatMessage>& history,
                     const std::string& text) {
  Question question;
  question.seed = static_cast<std::uint64_t>(*options.seed);
  if (options.raw) {
    question.raw_prompt = text;
    return question;
  }
  if (!options.system.empty()) question.messages.push_back({"system", options.system});
  question.messages.insert(question.messages.end(), history.begin(), history.end());
  question.messages.push_back({"user", text});
  return question;
}

bool print_verified(const client::Verified& verified) {
  if (verified.sentence.empty()) return false;
  std::fprintf(stderr, "hearth: %s\n", escape_control(verified.sentence).c_str());
  if (verified.right) std::fputs("hearth: the right answer:\n", stderr);
  return verified.right.has_value();
}

Error answer_timed_out(const RunOptions& options) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", options.timeout_seconds);
  return Error::of(ErrorCode::kTimeout, "the answer was not complete after ", seconds,
                   " seconds (--timeout); pass a larger value, or 0 for no limit");
}

Status write_receipt(const std::string& path, const std::string& saved) {
  if (saved.empty()) {
    return Error::of(ErrorCode::kNotFound, "the answer has no receipt to write to ", path,
                     ": the server keeps no ledger, or the answer was incomplete");
  }
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  REQUIRE(
      kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::regular,
      "--receipt ", path, ": this is not a plain file; name another one");
  return write_private_file(path, as_bytes(saved));
}

void print_figures(const RunFigures& figures) {
  const auto rate = [](std::uint32_t tokens, double seconds) {
    return seconds > 0.0 ? tokens / seconds : 0.0;
  };
  // The first token comes with the prompt's last step, so the rate covers only the tokens after it.
  const std::uint32_t after_first = figures.generated_tokens > 0 ? figures.generated_tokens - 1 : 0;
  std::fprintf(stderr, "total duration:       %.3fs\n", figures.total_seconds);
  std::fprintf(stderr, "load duration:        %.3fs\n", figures.load_seconds);
  std::fprintf(stderr, "prompt eval count:    %u token(s)\n", figures.prompt_tokens);
  if (figures.cached_tokens > 0) {
    std::fprintf(stderr, "prompt cached count:  %u token(s)\n", figures.cached_tokens);
  }
  std::fprintf(stderr, "prompt eval duration: %.3fs\n", figures.prompt_seconds);
  std::fprintf(stderr, "prompt eval rate:     %.2f tokens/s\n",
               rate(figures.prompt_tokens, figures.prompt_seconds));
  std::fprintf(stderr, "eval count:           %u token(s)\n", figures.generated_tokens);
  std::fprintf(stderr, "eval duration:        %.3fs\n", figures.generated_seconds);
  std::fprintf(stderr, "eval rate:            %.2f tokens/s\n",
               rate(after_first, figures.generated_seconds));
  const auto drafts = [](const char* name, const DraftCount& count) {
    if (count.drafted == 0) return;
    std::fprintf(stderr, "%s%u token(s), %u accepted\n", name, count.drafted, count.accepted);
  };
  drafts("drafted by lookup:    ", figures.drafts[0]);
  drafts("drafted by grammar:   ", figures.drafts[1]);
  drafts("drafted by model:     ", figures.drafts[2]);
  std::fprintf(stderr, "seed:                 %lld\n", static_cast<long long>(figures.seed));
  if (figures.credits) {
    std::fprintf(stderr, "price:                %lld credit(s)\n",
                 static_cast<long long>(*figures.credits));
  }
}

Result<int> run_run(RunOptions options) {
  catch_interrupts();
  TRY_VOID(choose_model(options));
  SystemRandom random;
  if (!options.seed) options.seed = static_cast<std::int64_t>(random.next() >> 1);

  if (options.raw && options.sampling.max_tokens == 0) options.sampling.max_tokens = kRawMaxTokens;
  std::string prompt = boost::algorithm::join(options.prompt, " ");
  const bool chat = options.prompt.empty() && isatty(STDIN_FILENO) == 1;
  if (options.prompt.empty() && !chat) {
    TRY(prompt, read_stdin());
    while (!options.raw && prompt.ends_with('\n')) prompt.pop_back();
  }
  if (!model::is_utf8(prompt) || !model::is_utf8(options.system)) {
    return misused(Error::invalid("the prompt is not valid UTF-8; convert it first, e.g. iconv"));
  }
  if (!chat && prompt.empty()) {
    const std::string taken = options.model.empty() ? ""
                                                    : ", since '" + options.model.substr(0, 64) +
                                                          "' is taken for the model";
    return misused(Error::invalid("the prompt is empty", taken,
                                  "; write hearth run MODEL PROMPT, or "
                                  "give the prompt on stdin. hearth ps names the served models"));
  }
  if (!options.receipt_file.empty() && (chat || options.local)) {
    return misused(Error::invalid("--receipt needs one answer of a swarm; it does not work with ",
                                  chat ? "a chat" : "--local"));
  }
  std::unique_ptr<Answerer> answerer;
  if (options.local) {
    if (const int code = check_known_answers(); code != kExitDone) return code;
    TRY(answerer, local_answerer(options));
  } else {
    answerer = swarm_answerer();
  }
  return chat ? chat_loop(options, *answerer) : one_shot(options, *answerer, prompt);
}

}  // namespace hearth::cli
