// AnswerParser: splits the text of an answer, as it arrives, into content, reasoning and calls. The
// joined parts are the same however the text is cut. Text that cannot become a mark or a call is
// sent at once. A call is sent when it is complete, so its arguments are always valid JSON. Text
// that begins like a call but is not one is content. Calls in a thought that nothing follows end
// it; others are part of it. Memory: at most limits::kToolCallBytes of text are held, twice that in
// a thought. For one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/chat/literal.h"
#include "model/chat/syntax.h"

namespace hearth::model {

struct AnswerPart {
  std::string content = {};
  std::string reasoning = {};
  std::vector<ChatToolCall> calls = {};  // without an id where the model wrote none
};

struct AnswerRules {
  std::vector<ChatTool> tools = {};  // none: calls are content
  bool parallel_calls = true;        // false: calls after the first are dropped
  bool separate_reasoning = true;    // false: reasoning is content, with its marks
  // The end of the prompt, which may have begun a thought or a call.
  std::string prompt_tail = {};
};

class AnswerParser {
 public:
  AnswerParser(std::shared_ptr<const ChatSyntax> syntax, AnswerRules rules);

  AnswerPart push(std::string_view text);
  AnswerPart finish();  // what was held

 private:
  enum class State { kStart, kReasoning, kContent, kCalls, kHeader, kBody };
  enum class Phase { kBetween, kName, kValue, kParameters, kAfter };
  enum class Step { kGo, kWait, kBroken, kDone };

  void begin_harmony();
  void run();
  bool step();
  bool step_start();
  bool step_reasoning();
  bool step_content();
  bool step_header();
  bool step_body();
  bool step_calls();
  Step between();
  Step name();
  Step value();
  Step parameters();
  Step after();
  void finish_object(std::string_view text);
  bool take_call(const LiteralObject& object, std::size_t depth);
  Step take_named(std::optional<std::string> arguments);
  bool emit(ChatToolCall call);
  Step elements();
  std::string parameter_json(std::string_view key, std::string_view text, bool is_text) const;
  std::string tool_name(std::string_view name) const;
  bool knows(std::string_view name) const;
  Step bare_call(std::string_view text) const;
  void read_header(std::string_view header);
  void tell(std::string_view text);
  void tell_reasoning(std::string_view text);
  void drop(std::size_t bytes);
  // The mark, without white space at its ends, stands at `at_`: it is skipped. kWait: it may come.
  Step take_mark(std::string_view mark);
  bool begin_calls(std::size_t found);
  // A thought that ends in calls, without its own mark, ends where they begin.
  bool end_thought_calls(Step step);
  void skip_spaces();

  std::shared_ptr<const ChatSyntax> syntax_;
  AnswerRules rules_;
  std::vector<std::string> triggers_;  // marks that begin calls
  std::vector<std::string> frames_;    // marks around content, which are dropped
  State state_ = State::kStart;
  Phase phase_ = Phase::kBetween;
  std::string buffer_;      // not told yet
  std::size_t primed_ = 0;  // bytes at its front that are of the prompt
  std::size_t lead_ = 0;    // white space at its front, content unless a call follows
  std::size_t at_ = 0;      // in buffer_: what the calls were read up to
  std::size_t begin_ = 0;   // of the value that is read
  std::size_t searched_ = 0;
  bool final_ = false;
  bool content_begun_ = false;
  bool after_mark_ = false;  // white space that follows is dropped
  bool marked_ = false;      // a mark has begun the call
  bool in_thought_ = false;  // kCalls: the calls stand in a thought, and are pending until its end
  std::string thought_;      // kCalls, then: what was read of them
  std::vector<ChatToolCall> pending_;
  std::size_t in_section_ = 0;
  std::size_t told_calls_ = 0;
  std::string name_;
  std::string id_;
  LiteralObject arguments_;
  LiteralScanner scanner_{false};
  bool to_function_ = false;  // kBody
  bool analysis_ = false;
  AnswerPart out_;
};

}  // namespace hearth::model
