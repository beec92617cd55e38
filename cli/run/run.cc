#include "cli/run/run.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/limits.h"
#include "base/random.h"
#include "cli/run/answer.h"
#include "cli/run/chat.h"
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
    REQUIRE(text.size() <= limits::kTextBytes,
            "the prompt is over " + std::to_string(limits::kTextBytes) + " bytes");
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void print_ids(const std::vector<TokenId>& ids) {
  std::string line;
  for (const TokenId id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
  std::printf("%s\n", line.c_str());
}

void print_json(const RunOptions& options, const Answer& answer) {
  nlohmann::json line = {{"model", options.model},
                         {"text", answer.text},
                         {"token_ids", answer.token_ids},
                         {"finish_reason", answer.finish_reason},
                         {"seed", answer.figures.seed},
                         {"prompt_tokens", answer.figures.prompt_tokens},
                         {"completion_tokens", answer.figures.generated_tokens},
                         {"seconds_to_first_token", answer.figures.prompt_seconds},
                         {"seconds", answer.figures.total_seconds}};
  if (answer.figures.credits) line["credits"] = *answer.figures.credits;
  if (!answer.receipt.empty()) line["receipt"] = answer.receipt;
  if (!answer.verified.object.is_null()) line.update(answer.verified.object);
  std::printf(
      "%s\n",
      escape_json(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).c_str());
}

Status write_receipt(const std::string& path, const Answer& answer) {
  if (answer.saved.empty()) {
    return Error{ErrorCode::kNotFound, "the answer has no receipt to write to " + path +
                                           ": its server keeps none, or it was not complete"};
  }
  std::ofstream file(path, std::ios::binary);
  file << answer.saved;
  file.close();
  if (!file) return Error{ErrorCode::kIo, "cannot write " + path};
  return ok_status();
}

int one_shot(const RunOptions& options, Answerer& answerer, const std::string& prompt) {
  Question question;
  question.seed = static_cast<std::uint64_t>(*options.seed);
  if (options.raw) {
    question.raw_prompt = prompt;
  } else {
    if (!options.system.empty()) question.messages.push_back({"system", options.system});
    question.messages.push_back({"user", prompt});
  }
  const bool text = !options.token_ids && !options.json;
  // What is in a pipe or a file cannot be taken back: there it comes when it is verified.
  const bool streams = text && (options.verify != "full" || isatty(STDOUT_FILENO) == 1);
  bool wrote = false;
  auto answer = answerer.ask(options, question, [&](std::string_view text) {
    if (!streams) return;
    wrote = true;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  if (!answer.ok()) {
    if (wrote) std::printf("\n");
    std::fflush(stdout);
    return fail(answer.error());
  }
  if (options.token_ids) print_ids(answer->token_ids);
  if (options.json) print_json(options, *answer);
  if (streams) std::printf("\n");
  if (text && !streams) std::printf("%s\n", answer->text.c_str());
  std::fflush(stdout);
  if (print_verified(answer->verified) && streams) std::printf("%s\n", answer->text.c_str());
  std::fflush(stdout);
  if (!options.hashes_file.empty()) {
    if (auto status = write_hashes(options.hashes_file, answer->hashes); !status.ok()) {
      return fail(status.error());
    }
  }
  if (!options.receipt_file.empty()) {
    if (auto status = write_receipt(options.receipt_file, *answer); !status.ok()) {
      return fail(status.error());
    }
  }
  if (options.verbose) print_figures(answer->figures);
  if (answer->finish_reason == "cancelled") return kExitInterrupted;
  return answer->verified.is_doubtful() ? kExitVerification : kExitDone;
}

}  // namespace

bool print_verified(const Verified& verified) {
  if (verified.sentence.empty()) return false;
  std::fprintf(stderr, "hearth: %s\n", verified.sentence.c_str());
  if (verified.right) std::fputs("hearth: the right answer:\n", stderr);
  return verified.right.has_value();
}

Error answer_timed_out(const RunOptions& options) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", options.timeout_seconds);
  return {ErrorCode::kTimeout, std::string("the answer was not complete after ") + seconds +
                                   " seconds (--timeout); allow more, or 0 for any time"};
}

Status write_hashes(const std::string& path, const std::vector<HashLine>& hashes) {
  std::ofstream file(path);
  for (const HashLine& line : hashes) {
    nlohmann::ordered_json json;
    json["step"] = line.step;
    json["stage"] = line.stage;
    json["layers"] = {line.layer_begin, line.layer_end};
    json["in"] = line.in;
    json["out"] = line.out;
    file << json.dump() << "\n";
  }
  file.close();
  if (!file) return Error{ErrorCode::kIo, "cannot write " + path};
  return ok_status();
}

void print_figures(const RunFigures& figures) {
  const auto rate = [](std::uint32_t tokens, double seconds) {
    return seconds > 0.0 ? tokens / seconds : 0.0;
  };
  // The first token comes with the prompt's last step; the rate is that of the ones after it.
  const std::uint32_t after_first = figures.generated_tokens > 0 ? figures.generated_tokens - 1 : 0;
  std::fprintf(stderr, "total duration:       %.3fs\n", figures.total_seconds);
  std::fprintf(stderr, "load duration:        %.3fs\n", figures.load_seconds);
  std::fprintf(stderr, "prompt eval count:    %u token(s)\n", figures.prompt_tokens);
  std::fprintf(stderr, "prompt eval duration: %.3fs\n", figures.prompt_seconds);
  std::fprintf(stderr, "prompt eval rate:     %.2f tokens/s\n",
               rate(figures.prompt_tokens, figures.prompt_seconds));
  std::fprintf(stderr, "eval count:           %u token(s)\n", figures.generated_tokens);
  std::fprintf(stderr, "eval duration:        %.3fs\n", figures.generated_seconds);
  std::fprintf(stderr, "eval rate:            %.2f tokens/s\n",
               rate(after_first, figures.generated_seconds));
  std::fprintf(stderr, "seed:                 %lld\n", static_cast<long long>(figures.seed));
  if (figures.credits) {
    std::fprintf(stderr, "price:                %lld credit(s)\n",
                 static_cast<long long>(*figures.credits));
  }
}

int run_run(RunOptions options) {
  catch_interrupts();
  SystemRandom random;
  if (!options.seed) options.seed = static_cast<std::int64_t>(random.next() >> 1);

  if (options.raw && options.max_tokens == 0) options.max_tokens = kRawMaxTokens;
  std::string prompt = joined(options.prompt);
  const bool chat = options.prompt.empty() && isatty(STDIN_FILENO) == 1;
  if (options.prompt.empty() && !chat) {
    auto text = read_stdin();
    if (!text.ok()) return fail(text.error());
    prompt = std::move(*text);
    while (!options.raw && prompt.ends_with('\n')) prompt.pop_back();
  }
  if (!model::is_utf8(prompt) || !model::is_utf8(options.system)) {
    std::fprintf(stderr, "hearth: the prompt is not valid UTF-8; convert it first, e.g. iconv\n");
    return kExitUsage;
  }
  if (!chat && prompt.empty()) {
    std::fprintf(stderr, "hearth: the prompt is empty; give one as an argument or on stdin\n");
    return kExitUsage;
  }
  if (!options.receipt_file.empty() && (chat || options.local)) {
    std::fprintf(stderr, "hearth: --receipt is of one answer of a swarm, not of %s\n",
                 chat ? "a chat" : "this process alone");
    return kExitUsage;
  }
  std::unique_ptr<Answerer> answerer;
  if (options.local) {
    if (const int code = check_known_answers(); code != kExitDone) return code;
    auto loaded = local_answerer(options);
    if (!loaded.ok()) return fail(loaded.error());
    answerer = std::move(*loaded);
  } else {
    answerer = swarm_answerer();
  }
  return chat ? chat_loop(options, *answerer) : one_shot(options, *answerer, prompt);
}

}  // namespace hearth::cli
