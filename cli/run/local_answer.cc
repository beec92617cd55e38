#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/limits.h"
#include "cli/models/models.h"
#include "cli/run/answer.h"
#include "cli/terminal/interrupt.h"
#include "cli/worker/device.h"
#include "coordinator/http/routes/prompt.h"
#include "model/text/stop_strings.h"
#include "node/runner/draft_model.h"
#include "node/runner/local_runner.h"

namespace hearth::cli {
namespace {

class LocalAnswerer final : public Answerer {
 public:
  static Result<std::unique_ptr<Answerer>> load(const RunOptions& options) {
    auto self = std::make_unique<LocalAnswerer>();
    const AnswerTimes loading;
    TRY(auto path, resolve_model(options.model));
    TRY(auto file, model::GgufFile::open(path.string()));
    TRY(self->model_, read_texts(*file, options.chat_template));
    const model::ModelSpec& spec = self->model_.spec;
    if (spec.gives_embeddings) {
      return Error::of(ErrorCode::kUnsupported, "the model '", options.model,
                       "' gives embeddings and generates no text: serve it with hearth serve, and "
                       "send texts to /v1/embeddings");
    }
    node::LocalOptions local;
    local.stages = options.stages;
    local.threads =
        options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
    local.memory_bytes = options.memory_bytes;
    local.whole_context = true;
    local.draft_rows = options.no_speculation ? 0 : limits::kDraftRows;
    TRY(self->device_,
        open_device(options.device, *file, spec, whole_model(spec), [&](std::string_view text) {
          if (options.verbose)
            std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
        }));
    if (self->device_ != nullptr) local.devices = {self->device_.get()};
    TRY_VOID(open_draft(options, *file, local));
    TRY(self->runner_, node::LocalRunner::load(file, local));
    self->load_seconds_ = loading.seconds();
    return std::unique_ptr<Answerer>(std::move(self));
  }

  Result<Answer> ask(const RunOptions& options, const Question& question,
                     const std::function<void(std::string_view)>& on_text) override {
    times_ = AnswerTimes();
    TRY(std::vector<TokenId> prompt, encode(question));
    TRY(SequenceOpen open, open_sequence(options, question, prompt));
    Answer answer;
    answer.figures.seed = question.seed;
    answer.figures.load_seconds = load_seconds_;
    answer.figures.prompt_tokens = open.prompt_tokens;
    TRY_VOID(generate(options, open, std::move(prompt), answer, on_text));
    times_.write(answer.figures);
    // Rows behind a stop string may have been drafted and drawn before the stop string was found.
    const std::size_t known = answer.token_ids.size();
    std::erase_if(answer.hashes, [&](const HashLine& line) {
      return known > 0 && line.step + 1 >= open.prompt_tokens + known;
    });
    answer.figures.generated_tokens = static_cast<std::uint32_t>(answer.token_ids.size());
    std::sort(answer.hashes.begin(), answer.hashes.end(), [](const HashLine& a, const HashLine& b) {
      return std::pair(a.step, a.stage) < std::pair(b.step, b.stage);
    });
    return answer;
  }

 private:
  static Status open_draft(const RunOptions& options, const model::GgufFile& file,
                           node::LocalOptions& local) {
    if (options.draft.empty()) return ok_status();
    TRY(const auto path, resolve_model(options.draft));
    node::EngineOptions stage;
    stage.threads = local.threads;
    TRY(auto opened, model::GgufFile::open(path.string()));
    TRY(const node::DraftFile draft, node::DraftModel::open(std::move(opened), file, stage));
    TRY(local.memory_bytes, draft.left_of(options.memory_bytes));
    TRY(local.draft_model, node::DraftModel::load(draft));
    return ok_status();
  }

  Result<std::vector<TokenId>> encode(const Question& question) const {
    if (question.messages.empty()) {
      return coordinator::http::encode_text(*model_.tokenizer, question.raw_prompt);
    }
    TRY(auto pieces,
        coordinator::http::render_chat(model_, SystemClock().unix_seconds(), question.messages));
    return coordinator::http::encode_pieces(*model_.tokenizer, pieces);
  }

  Result<SequenceOpen> open_sequence(const RunOptions& options, const Question& question,
                                     const std::vector<TokenId>& prompt) {
    const std::uint32_t context = runner_->spec().context;
    REQUIRE(!prompt.empty(), "the prompt has no tokens; give some text");
    REQUIRE(prompt.size() < context, "the prompt has ", prompt.size(),
            " tokens; the limit is the model's context of ", context);
    SequenceOpen open;
    open.sequence = SequenceId(next_id_++);
    open.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    open.report_hashes = !options.hashes_file.empty();
    SamplingParams& sampling = open.sampling = options.sampling;
    sampling.seed = question.seed;
    const std::uint32_t room = context - open.prompt_tokens;
    if (sampling.max_tokens == 0) sampling.max_tokens = std::min(room, limits::kDefaultMaxTokens);
    if (!options.ignore_eos) sampling.stop_tokens = model_.tokenizer->end_tokens();
    TRY_VOID(validate(sampling, model_.tokenizer->vocabulary()));
    return open;
  }

  Status generate(const RunOptions& options, const SequenceOpen& open, std::vector<TokenId> prompt,
                  Answer& answer, const std::function<void(std::string_view)>& on_text) {
    model::StopMatcher stops(options.stop);
    model::Detokenizer detokenizer(model_.tokenizer, false);
    bool done = false;
    bool over = false;  // the sequence has ended by itself
    Status failed = ok_status();
    const auto emit = [&](const std::string& text) {
      answer.text += text;
      if (!text.empty()) on_text(text);
    };
    node::LocalRunner::Events events;
    events.on_token = [&](const SampledToken& token) {
      if (done) return;
      times_.on_token();
      done = over = token.finish != FinishReason::kNone;
      if (token.finish == FinishReason::kError) {
        failed =
            Error{token.error, "the engine failed at position " + std::to_string(token.position) +
                                   " (" + std::string(error_code_name(token.error)) + ")"};
        return;
      }
      answer.token_ids.push_back(token.token);
      std::string text;
      if (token.finish != FinishReason::kStop) text = detokenizer.push(token.token);
      if (done) text += detokenizer.finish();
      emit(stops.push(text));
      if (stops.matched()) {
        answer.finish_reason = "stop";
        done = true;
      } else if (done) {
        emit(stops.finish());
        answer.finish_reason = token.finish == FinishReason::kStop ? "stop" : "length";
      }
    };
    events.on_drafts = [&](const DraftCounts& counts) {
      for (std::size_t kind = 0; kind < kDraftKinds; ++kind) {
        answer.figures.drafts[kind].drafted += counts[kind].drafted;
        answer.figures.drafts[kind].accepted += counts[kind].accepted;
      }
    };
    events.on_hash = [&](const RowHash& hash) {
      answer.hashes.push_back({hash.position, hash.stage, hash.layers.begin, hash.layers.end,
                               hash.in.hex(), hash.out.hex()});
    };
    TRY_VOID(runner_->submit(open, std::move(prompt), events));
    while (!done) {
      if (interrupted()) {
        answer.finish_reason = "cancelled";
        break;
      }
      if (options.timeout_seconds > 0 && times_.seconds() >= options.timeout_seconds) {
        failed = answer_timed_out(options);
        break;
      }
      TRY(bool stepped, runner_->step());
      if (!stepped && !done)
        return Error{ErrorCode::kNoCapacity,
                     "the engine stopped although the answer is incomplete"};
    }
    // An ended sequence reports the hashes of its last drafts when it is released.
    if (!over) runner_->cancel(open.sequence);
    for (bool more = true; more;) {  // frees its KV before the next question
      TRY(more, runner_->step());
    }
    return failed;
  }

  coordinator::http::ServedModel model_;
  std::unique_ptr<node::Device> device_;  // null: the processor
  std::unique_ptr<node::LocalRunner> runner_;
  std::uint64_t next_id_ = 1;
  double load_seconds_ = 0.0;
  AnswerTimes times_;
};

}  // namespace

Result<coordinator::http::ServedModel> read_texts(const model::GgufFile& file,
                                                  const std::string& chat_template) {
  coordinator::http::ServedModel texts;
  TRY(texts.spec, model::ModelSpec::read(file));
  TRY(texts.tokenizer, model::Tokenizer::load(file));
  TRY(texts.chat_template, read_chat_template(file, *texts.tokenizer, chat_template));
  texts.syntax = std::make_shared<model::ChatSyntax>(model::find_chat_syntax(*texts.chat_template));
  return texts;
}

Result<std::unique_ptr<Answerer>> local_answerer(const RunOptions& options) {
  return LocalAnswerer::load(options);
}

}  // namespace hearth::cli
