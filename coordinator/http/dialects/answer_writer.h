// AnswerWriter: writes one answer for one client in one dialect, as the events of a stream or as a
// whole body. It has the state of that client's stream: the block that is open, the number of the
// next event. Not safe for several threads; whole() may run on another one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/http/dialects/dialect.h"
#include "coordinator/http/openai/json.h"
#include "coordinator/http/openai/responses.h"
#include "model/text/tokenizer.h"

namespace hearth::coordinator::http {

// How a stream is framed.
struct StreamForm {
  bool lines = false;  // a line of JSON an event (application/x-ndjson), instead of SSE
};

// One event of a stream. `name`: the SSE field `event`; empty: none.
struct StreamEvent {
  std::string_view name;
  std::string data;
};
using StreamEvents = std::vector<StreamEvent>;

// The facts that are known when an answer begins.
struct AnswerStart {
  AnswerHead head;
  std::uint64_t prompt_tokens = 0;
  OrderedJson frame = {};  // fields of the request that an answer of the dialect repeats
  std::optional<EmbeddingForm> embedding = {};  // the answer is the embeddings of its prompts
  // The whole answer to a request that only loads its model; otherwise empty.
  std::string fixed = {};
  std::shared_ptr<const model::Tokenizer> tokenizer;
};

// Facts that are known only at the end of an answer.
struct AnswerEnd {
  Usage usage;
  Timings timings;
  OrderedJson hearth;  // hearth_object()
};

class AnswerWriter {
 public:
  explicit AnswerWriter(AnswerStart start) : start_(std::move(start)) {}
  virtual ~AnswerWriter() = default;
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  virtual Dialect dialect() const = 0;
  virtual StreamForm form() const { return {}; }

  // The events of a stream, in the order in which these are called; each may give none.
  // Before the first part of a choice; `part` has its index and whether token ids are written.
  virtual StreamEvents begin(const ChoicePart& part) = 0;
  // The new part of a choice.
  virtual StreamEvents add(const ChoicePart& part) = 0;
  // The last part of a choice, with its finish reason. `closing`: keys of the last event that has
  // choices; null for the others.
  virtual StreamEvents end(const ChoicePart& part, const OrderedJson& closing) = 0;
  // Says what the request waits for while its model is not loaded; empty in a dialect without such
  // an event.
  virtual StreamEvents tell_loading(const OrderedJson& /*loading*/) { return {}; }
  // The hearth object by itself.
  virtual StreamEvents tell_hearth(const OrderedJson& hearth) = 0;
  // After the last choice.
  virtual StreamEvents close(const AnswerEnd& end) = 0;
  // The mark at the end of every stream; it never has an id.
  virtual StreamEvents mark() { return {}; }
  // An error in the middle of a stream, which ends it.
  virtual StreamEvents fail(const ApiError& error) = 0;

  // The body of a whole answer. Parts have their finish reasons.
  virtual std::string whole(const std::vector<ChoicePart>& parts, const AnswerEnd& end) const = 0;

 protected:
  const AnswerHead& head() const { return start_.head; }
  const AnswerStart& start() const { return start_; }
  // The part of the answer's id that differs from answer to answer.
  std::string_view number() const {
    const std::string& id = start_.head.id;
    return std::string_view(id).substr(id.rfind('-') + 1);
  }

 private:
  AnswerStart start_;
};

// An answer that is sent as a whole body only: its streams have no events.
class WholeWriter : public AnswerWriter {
 public:
  WholeWriter(Dialect dialect, AnswerStart start)
      : AnswerWriter(std::move(start)), dialect_(dialect) {}
  Dialect dialect() const final { return dialect_; }
  StreamEvents begin(const ChoicePart&) final { return {}; }
  StreamEvents add(const ChoicePart&) final { return {}; }
  StreamEvents end(const ChoicePart&, const OrderedJson&) final { return {}; }
  StreamEvents tell_hearth(const OrderedJson&) final { return {}; }
  StreamEvents close(const AnswerEnd&) final { return {}; }
  StreamEvents fail(const ApiError&) final { return {}; }

 private:
  const Dialect dialect_;
};

std::unique_ptr<AnswerWriter> make_openai_writer(AnswerStart start);
std::unique_ptr<AnswerWriter> make_responses_writer(AnswerStart start);
std::unique_ptr<AnswerWriter> make_anthropic_writer(AnswerStart start);
std::unique_ptr<AnswerWriter> make_ollama_writer(AnswerStart start, bool chat);
std::unique_ptr<AnswerWriter> make_fixed_writer(Dialect dialect, AnswerStart start);
std::unique_ptr<AnswerWriter> make_embedding_writer(Dialect dialect, AnswerStart start);
std::unique_ptr<AnswerWriter> make_answer_writer(Dialect dialect, AnswerStart start);

// "2026-11-25T22:35:14Z", as Ollama writes times.
std::string rfc3339(std::int64_t unix_seconds);
// The arguments of a tool call as an object, for dialects that need an object.
OrderedJson arguments_object(const std::string& arguments);

}  // namespace hearth::coordinator::http
