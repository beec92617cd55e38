#include "model/chat/parser.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/limits.h"
#include "model/chat/elements.h"

namespace hearth::model {
namespace {

constexpr std::size_t kHeaderBytes = 512;  // of a harmony message

std::size_t without_spaces(std::string_view text, std::size_t end) {
  while (end > 0 && kSpaces.find(text[end - 1]) != kSpaces.npos) --end;
  return end;
}

// Bytes at the end of the text with which `mark` may begin.
std::size_t partial(std::string_view text, std::string_view mark) {
  if (mark.empty()) return 0;
  for (std::size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n) {
    if (text.ends_with(mark.substr(0, n))) return n;
  }
  return 0;
}

// A trimmed mark at the front of a text. White space of the mark matches any white space or none in
// the text, because models vary it.
struct MarkMatch {
  bool is_whole = false;
  bool may_come = false;  // the text ends within the mark
  std::size_t size = 0;   // in the text
};

MarkMatch match_mark(std::string_view text, std::string_view mark) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < mark.size(); ++i) {
    if (kSpaces.find(mark[i]) != kSpaces.npos) {
      at = std::min(text.find_first_not_of(kSpaces, at), text.size());
      continue;
    }
    if (at == text.size()) return {.may_come = true};
    if (text[at] != mark[i]) return {};
    ++at;
  }
  return {.is_whole = true, .size = at};
}

// Where the mark stands in the text from `from` on; npos: not at all.
std::pair<std::size_t, std::size_t> find_mark(std::string_view text, std::string_view mark,
                                              std::size_t from) {
  if (mark.empty()) return {text.npos, 0};
  for (std::size_t at = text.find(mark.front(), from); at != text.npos;
       at = text.find(mark.front(), at + 1)) {
    const MarkMatch match = match_mark(text.substr(at), mark);
    if (match.is_whole) return {at, match.size};
  }
  return {text.npos, 0};
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-.:/$").find(c) != std::string_view::npos;
}

constexpr std::array<std::string_view, 4> kBodyEnds = {"<|end|>", "<|call|>", "<|return|>",
                                                       "<|start|>"};

}  // namespace

AnswerParser::AnswerParser(std::shared_ptr<const ChatSyntax> syntax, AnswerRules rules)
    : syntax_(std::move(syntax)), rules_(std::move(rules)) {
  INVARIANT(syntax_ != nullptr, "a parser has a syntax");
  if (syntax_->form == CallForm::kHarmony) {
    begin_harmony();
    return;
  }
  if (!rules_.tools.empty()) triggers_ = syntax_->call_triggers();
  for (const std::string* mark :
       {&syntax_->content_begin, &syntax_->content_end, &syntax_->answer_end}) {
    if (const std::string_view text = trimmed(*mark); !text.empty()) frames_.emplace_back(text);
  }
  const std::string_view tail = rules_.prompt_tail;
  const std::string_view begin = trimmed(syntax_->think_begin);
  const std::string_view end = trimmed(syntax_->think_end);
  const std::size_t opened = begin.empty() ? tail.npos : tail.rfind(begin);
  const std::size_t closed = end.empty() ? tail.npos : tail.rfind(end);
  if (opened != tail.npos && (closed == tail.npos || closed < opened)) {
    state_ = State::kReasoning;
  } else if (closed != tail.npos) {
    state_ = State::kContent;
  }
  after_mark_ = opened != tail.npos || closed != tail.npos;
  for (const std::string& trigger : triggers_) {
    if (!tail.ends_with(trigger)) continue;
    state_ = State::kContent;
    buffer_ = trigger;
    primed_ = trigger.size();
  }
}

void AnswerParser::begin_harmony() {
  state_ = State::kHeader;
  const std::size_t start = rules_.prompt_tail.rfind("<|start|>");
  if (start != std::string::npos) push(std::string_view(rules_.prompt_tail).substr(start));
  // Text that is in the prompt is not sent again.
  out_ = {};
  primed_ = buffer_.size();
}

AnswerPart AnswerParser::push(std::string_view text) {
  INVARIANT(!final_, "nothing follows the end of an answer");
  buffer_ += text;
  run();
  return std::exchange(out_, {});
}

AnswerPart AnswerParser::finish() {
  final_ = true;
  run();
  if (in_thought_) end_thought_calls(Step::kDone);
  tell(buffer_);
  drop(buffer_.size());
  return std::exchange(out_, {});
}

void AnswerParser::run() {
  while (!buffer_.empty() && step()) {
  }
}

bool AnswerParser::step() {
  switch (state_) {
    case State::kStart: return step_start();
    case State::kReasoning: return step_reasoning();
    case State::kContent: return step_content();
    case State::kCalls: return step_calls();
    case State::kHeader: return step_header();
    case State::kBody: return step_body();
  }
  return false;
}

void AnswerParser::drop(std::size_t bytes) {
  INVARIANT(bytes <= buffer_.size(), "only what is held is dropped");
  buffer_.erase(0, bytes);
  primed_ -= std::min(primed_, bytes);
  at_ -= std::min(at_, bytes);
  searched_ = 0;
}

// `text` is the front of buffer_; the part that is in the prompt is not sent again.
void AnswerParser::tell(std::string_view text) {
  INVARIANT(primed_ <= buffer_.size(), "what the prompt holds is at the front of the text");
  text.remove_prefix(std::min(primed_, text.size()));
  if (after_mark_) {
    const std::size_t begin = std::min(text.find_first_not_of(kSpaces), text.size());
    text.remove_prefix(begin);
    after_mark_ = text.empty();
  }
  content_begun_ = content_begun_ || !trimmed(text).empty();
  out_.content += text;
}

void AnswerParser::tell_reasoning(std::string_view text) {
  text.remove_prefix(std::min(primed_, text.size()));
  if (!rules_.separate_reasoning) {
    out_.content += text;
    return;
  }
  if (after_mark_) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    after_mark_ = text.empty();
  }
  out_.reasoning += text;
}

bool AnswerParser::step_start() {
  const std::string_view mark = trimmed(syntax_->think_begin);
  const std::size_t begin = std::min(buffer_.find_first_not_of(kSpaces), buffer_.size());
  const std::string_view rest = std::string_view(buffer_).substr(begin);
  const std::string_view end = trimmed(syntax_->think_end);
  for (const std::string_view each : {mark, end}) {
    if (!final_ && rest.size() < each.size() && each.starts_with(rest)) return false;
  }
  // An answer without a thought may begin with the end of one (MiniMax M3).
  if (rules_.separate_reasoning && !end.empty() && rest.starts_with(end)) {
    drop(begin + end.size());
    state_ = State::kContent;
    after_mark_ = true;
    return true;
  }
  if (mark.empty() || !rest.starts_with(mark)) {
    state_ = State::kContent;
    return true;
  }
  if (!rules_.separate_reasoning) out_.content += buffer_.substr(0, begin + mark.size());
  drop(begin + mark.size());
  state_ = State::kReasoning;
  after_mark_ = true;
  return true;
}

bool AnswerParser::step_reasoning() {
  const std::string_view mark = trimmed(syntax_->think_end);
  const std::size_t found = mark.empty() ? buffer_.npos : buffer_.find(mark);
  std::size_t held = final_ ? 0 : partial(buffer_, mark);
  std::size_t call = buffer_.npos;
  for (const std::string& trigger : triggers_) {
    call = std::min(call, buffer_.find(trigger));
    if (!final_) held = std::max(held, partial(buffer_, trigger));
  }
  if (call < found) {
    tell_reasoning(std::string_view(buffer_).substr(0, without_spaces(buffer_, call)));
    in_thought_ = true;
    return begin_calls(call);
  }
  if (found != buffer_.npos) {
    if (rules_.separate_reasoning) {
      tell_reasoning(std::string_view(buffer_).substr(0, without_spaces(buffer_, found)));
    } else {
      tell_reasoning(std::string_view(buffer_).substr(0, found + mark.size()));
    }
    drop(found + mark.size());
    state_ = State::kContent;
    after_mark_ = rules_.separate_reasoning;
    return true;
  }
  const std::size_t ready = without_spaces(buffer_, buffer_.size() - held);
  tell_reasoning(std::string_view(buffer_).substr(0, ready));
  drop(final_ ? buffer_.size() : ready);
  return false;
}

bool AnswerParser::step_content() {
  if (rules_.tools.empty() && frames_.empty()) {
    tell(buffer_);
    drop(buffer_.size());
    return false;
  }
  std::size_t found = buffer_.npos;
  std::size_t held = 0;
  for (const std::string& trigger : triggers_) {
    found = std::min(found, buffer_.find(trigger));
    if (!final_) held = std::max(held, partial(buffer_, trigger));
  }
  std::size_t frame = 0;  // bytes of the mark at `found`, if it is no call's
  for (const std::string& mark : frames_) {
    if (const std::size_t at = buffer_.find(mark); at < found) {
      found = at;
      frame = mark.size();
    }
    if (!final_) held = std::max(held, partial(buffer_, mark));
  }
  if (frame > 0) {
    tell(std::string_view(buffer_).substr(0, found));
    drop(found + frame);
    return true;
  }
  if (!rules_.tools.empty() && triggers_.empty() && !content_begun_) {
    const std::size_t begin = std::min(buffer_.find_first_not_of(kSpaces), buffer_.size());
    const Step bare = bare_call(std::string_view(buffer_).substr(begin));
    if (bare == Step::kWait && !final_) return false;
    if (bare == Step::kGo) found = begin;
  }
  const std::size_t ready = found != buffer_.npos ? found : buffer_.size() - held;
  // White space before a call is not content.
  const std::size_t shown =
      final_ && found == buffer_.npos ? ready : without_spaces(buffer_, ready);
  tell(std::string_view(buffer_).substr(0, shown));
  if (found == buffer_.npos) {
    drop(shown);
    return false;
  }
  return begin_calls(found);
}

// `found` in buffer_; the text before it is sent, except white space at its end.
bool AnswerParser::begin_calls(std::size_t found) {
  const std::size_t shown = without_spaces(buffer_, found);
  drop(shown);
  lead_ = found - shown;
  state_ = State::kCalls;
  phase_ = Phase::kBetween;
  at_ = 0;
  in_section_ = 0;
  marked_ = false;
  return true;
}

// Whether a text without any mark is a call.
AnswerParser::Step AnswerParser::bare_call(std::string_view text) const {
  if (text.empty()) return Step::kWait;
  const bool object = syntax_->form == CallForm::kObject;
  if (text.front() != (object ? '{' : '[')) return Step::kBroken;
  text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  const auto fits = [&](std::string_view word) {
    if (text.starts_with(word)) return Step::kGo;
    return word.starts_with(text) ? Step::kWait : Step::kBroken;
  };
  Step best = Step::kBroken;
  const auto try_word = [&](const std::string& word) {
    const Step step = fits(word);
    if (step == Step::kGo || best == Step::kBroken) best = step;
  };
  if (object) {
    for (const std::string_view key :
         {std::string_view(syntax_->name_key), std::string_view(syntax_->arguments_key),
          std::string_view("type"), std::string_view("function"), std::string_view("parameters")}) {
      try_word("\"" + std::string(key) + "\"");
    }
  } else {
    for (const ChatTool& tool : rules_.tools) try_word(tool.name + "(");
  }
  return best;
}

bool AnswerParser::knows(std::string_view name) const {
  return std::ranges::any_of(rules_.tools, [&](const ChatTool& tool) { return tool.name == name; });
}

void AnswerParser::skip_spaces() {
  at_ = std::min(buffer_.find_first_not_of(kSpaces, at_), buffer_.size());
}

AnswerParser::Step AnswerParser::take_mark(std::string_view mark) {
  mark = trimmed(mark);
  if (mark.empty()) return Step::kBroken;
  const MarkMatch match = match_mark(std::string_view(buffer_).substr(at_), mark);
  at_ += match.size;
  if (match.is_whole) return Step::kGo;
  return !final_ && match.may_come ? Step::kWait : Step::kBroken;
}

bool AnswerParser::step_calls() {
  Step step = Step::kGo;
  while (step == Step::kGo) {
    switch (phase_) {
      case Phase::kBetween: step = between(); break;
      case Phase::kName: step = name(); break;
      case Phase::kValue: step = value(); break;
      case Phase::kParameters:
        step = syntax_->form == CallForm::kElements ? elements() : parameters();
        break;
      case Phase::kAfter: step = after(); break;
    }
  }
  if (step == Step::kWait && !final_ && buffer_.size() <= limits::kToolCallBytes) return false;
  if (in_thought_) return end_thought_calls(step);
  state_ = State::kContent;
  if (step == Step::kDone) {
    drop(at_);
    after_mark_ = true;
    return !buffer_.empty();
  }
  // Not a call: its first byte is content, and so is what follows unless another call begins there.
  content_begun_ = true;
  const std::size_t first = std::max(primed_, lead_ + 1);
  tell(std::string_view(buffer_).substr(0, first));
  drop(first);
  return !buffer_.empty();
}

bool AnswerParser::end_thought_calls(Step step) {
  skip_spaces();
  const bool at_end = step == Step::kDone && at_ == buffer_.size();
  if (at_end && !final_) return false;
  in_thought_ = false;
  if (at_end) {
    out_.calls.insert(out_.calls.end(), pending_.begin(), pending_.end());
    drop(buffer_.size());
    state_ = State::kContent;
  } else {
    // Text follows, so the model only thought of the calls and did not make them.
    INVARIANT(told_calls_ >= pending_.size(), "a call that is pending is counted");
    told_calls_ -= pending_.size();
    if (thought_.empty()) {
      thought_ = buffer_.substr(0, lead_ + 1);
      drop(thought_.size());
    }
    tell_reasoning(thought_);
    state_ = State::kReasoning;
  }
  pending_.clear();
  thought_.clear();
  return !buffer_.empty();
}

AnswerParser::Step AnswerParser::between() {
  skip_spaces();
  bool wait = at_ == buffer_.size() && !final_;
  const auto take = [&](std::string_view mark) {
    const Step step = take_mark(mark);
    wait = wait || step == Step::kWait;
    return step == Step::kGo;
  };
  if (in_section_ > 0 && take(syntax_->section_end)) return Step::kDone;
  if (take(syntax_->section_begin) || take(syntax_->call_begin) || take(syntax_->inner_begin())) {
    marked_ = true;
    return Step::kGo;
  }
  if (in_section_ > 0 && (take(syntax_->separator) || take(",") || take(";"))) return Step::kGo;
  if (wait) return Step::kWait;
  const char c = at_ < buffer_.size() ? buffer_[at_] : '\0';
  begin_ = at_;
  if (syntax_->form == CallForm::kObject) {
    if (c == '[' || (c == ']' && in_section_ > 0)) {
      ++at_;
      return Step::kGo;
    }
    if (c == '{') {
      scanner_ = LiteralScanner(false);
      phase_ = Phase::kValue;
      return Step::kGo;
    }
  } else {
    if (syntax_->arguments == ArgumentForm::kPython &&
        (c == '[' || (c == ']' && in_section_ > 0))) {
      ++at_;
      return Step::kGo;
    }
    const bool may_begin = marked_ || trimmed(syntax_->call_begin).empty();
    if (may_begin && is_name_byte(c)) {
      phase_ = Phase::kName;
      return Step::kGo;
    }
  }
  return in_section_ > 0 ? Step::kDone : Step::kBroken;
}

AnswerParser::Step AnswerParser::name() {
  std::size_t end = begin_;
  while (end < buffer_.size() && is_name_byte(buffer_[end])) ++end;
  if (end - begin_ > limits::kToolNameBytes) return Step::kBroken;
  if (end == buffer_.size()) return Step::kWait;
  const std::string_view word = std::string_view(buffer_).substr(begin_, end - begin_);
  at_ = end;
  if (word == "all" && !knows(word) && buffer_[at_] == '\n') {  // functionary: to everybody
    ++at_;
    return Step::kDone;
  }
  skip_spaces();
  if (!trimmed(syntax_->name_end).empty()) {
    const Step step = take_mark(syntax_->name_end);
    if (step != Step::kGo) return step;
  }
  id_.clear();
  if (!trimmed(syntax_->id_end).empty()) {
    const std::size_t stop = buffer_.find(trimmed(syntax_->id_end), at_);
    if (stop == buffer_.npos) return Step::kWait;
    id_ = trimmed(std::string_view(buffer_).substr(at_, stop - at_));
    if (id_.size() > limits::kToolNameBytes) return Step::kBroken;
    if (syntax_->numbered) id_.clear();
    at_ = stop + trimmed(syntax_->id_end).size();
  }
  skip_spaces();
  if (at_ == buffer_.size() && !final_) return Step::kWait;
  name_ = tool_name(word);
  if (syntax_->name_in_id) id_ = word;
  arguments_ = {};
  if (syntax_->form == CallForm::kTagged || syntax_->form == CallForm::kElements) {
    phase_ = Phase::kParameters;
    return Step::kGo;
  }
  const char open = syntax_->arguments == ArgumentForm::kPython ? '(' : '{';
  if (buffer_[at_] != open) return Step::kBroken;
  begin_ = at_;
  scanner_ = LiteralScanner(syntax_->arguments == ArgumentForm::kPython, syntax_->quote);
  phase_ = Phase::kValue;
  return Step::kGo;
}

// functions.NAME:INDEX means NAME, unless a tool has the longer name.
std::string AnswerParser::tool_name(std::string_view name) const {
  if (knows(name)) return std::string(name);
  std::string_view out = name;
  if (out.starts_with("functions.")) out.remove_prefix(std::string_view("functions.").size());
  const std::size_t colon = out.rfind(':');
  if (colon != out.npos && out.find_first_not_of("0123456789", colon + 1) == out.npos) {
    out = out.substr(0, colon);
  }
  return std::string(knows(out) ? out : name);
}

AnswerParser::Step AnswerParser::value() {
  INVARIANT(begin_ <= buffer_.size(), "a value begins in the text");
  const auto size = scanner_.end(std::string_view(buffer_).substr(begin_));
  if (scanner_.broken()) return Step::kBroken;
  if (!size) return Step::kWait;
  const std::string_view text = std::string_view(buffer_).substr(begin_, *size);
  at_ = begin_ + *size;
  if (syntax_->form == CallForm::kObject) {
    const auto object = read_literal_object(text, '{', '}');
    if (!object || !take_call(*object, 0)) return Step::kBroken;
    phase_ = Phase::kAfter;
    return Step::kGo;
  }
  if (syntax_->arguments == ArgumentForm::kJson) return take_named(literal_to_json(text));
  const bool python = syntax_->arguments == ArgumentForm::kPython;
  const auto object =
      read_literal_object(text, python ? '(' : '{', python ? ')' : '}', syntax_->quote);
  return take_named(object ? std::optional(object_json(*object)) : std::nullopt);
}

AnswerParser::Step AnswerParser::take_named(std::optional<std::string> arguments) {
  if (!arguments || !emit({id_, name_, std::move(*arguments)})) return Step::kBroken;
  phase_ = Phase::kAfter;
  return Step::kGo;
}

bool AnswerParser::take_call(const LiteralObject& object, std::size_t depth) {
  const std::string* nested = object.find("function");
  const std::string* name = object.find(syntax_->name_key);
  if (name == nullptr) name = object.find("name");
  if (name == nullptr && nested != nullptr && depth == 0) {
    const auto inner = read_literal_object(*nested, '{', '}');
    if (inner) return take_call(*inner, depth + 1);
    name = nested;
  }
  const auto text = name != nullptr ? text_of_json(*name) : std::nullopt;
  if (!text || text->empty() || text->size() > limits::kToolNameBytes) return false;
  const std::string* arguments = object.find(syntax_->arguments_key);
  for (const std::string_view key : {"arguments", "parameters"}) {
    if (arguments == nullptr) arguments = object.find(key);
  }
  std::string json = arguments != nullptr ? *arguments : "{}";
  if (const auto quoted = text_of_json(json)) json = *quoted;  // JSON in a string
  std::optional<std::string> read = literal_to_json(json);
  if (!read) return false;
  std::string id;
  if (const std::string* value = syntax_->id_key.empty() ? nullptr : object.find(syntax_->id_key)) {
    id = text_of_json(*value).value_or(*value);
    if (id.size() > limits::kToolNameBytes) id.clear();
  }
  const bool bare = triggers_.empty();
  if (bare && !knows(tool_name(*text))) return false;
  return emit({std::move(id), tool_name(*text), std::move(*read)});
}

bool AnswerParser::emit(ChatToolCall call) {
  ++in_section_;
  // A client can read every call: it has a name, and its arguments are an object within the limits.
  if (call.name.empty() || !read_literal_object(call.arguments, '{', '}')) return false;
  if (told_calls_ >= limits::kToolCalls) return false;
  if (told_calls_ > 0 && !rules_.parallel_calls) return true;
  ++told_calls_;
  (in_thought_ ? pending_ : out_.calls).push_back(std::move(call));
  return true;
}

AnswerParser::Step AnswerParser::parameters() {
  const std::string_view mark = trimmed(syntax_->parameter_begin);
  const std::string_view key_end = trimmed(syntax_->key_end);
  const std::string_view value_end = trimmed(syntax_->value_end);
  skip_spaces();
  const std::size_t start = at_;
  const Step begun = take_mark(mark);
  if (begun == Step::kGo) {
    const std::size_t end = buffer_.find(value_end, std::max(at_, searched_));
    if (end == buffer_.npos) {
      // Scans only the new text.
      searched_ = buffer_.size() - std::min(buffer_.size() - at_, value_end.size());
      at_ = start;
      return Step::kWait;
    }
    searched_ = 0;
    auto [key, mark_size] = find_mark(buffer_, key_end, at_);
    std::size_t text = key == buffer_.npos ? key : key + mark_size;
    const bool is_text = key < end && !syntax_->type_word.empty();
    if (key >= end && key_end.size() > 2 && key_end.front() == '"' && key_end.back() == '>') {
      // The mark may show more about the value than the mark in the probe did.
      key = buffer_.find('"', at_);
      text = buffer_.find('>', at_);
      if (text != buffer_.npos) ++text;
    }
    if (key >= end || text > end || arguments_.entries.size() >= limits::kTools)
      return Step::kBroken;
    const std::string name(trimmed(std::string_view(buffer_).substr(at_, key - at_)));
    arguments_.entries.emplace_back(
        name, parameter_json(name, std::string_view(buffer_).substr(text, end - text), is_text));
    at_ = end + value_end.size();
    return Step::kGo;
  }
  const std::string_view end_mark = trimmed(syntax_->call_end);
  const Step ended = end_mark.empty() ? Step::kGo : take_mark(end_mark);
  if (begun == Step::kWait || ended == Step::kWait) {
    if (!final_) {
      at_ = start;
      return Step::kWait;
    }
  }
  if (ended != Step::kGo) return Step::kBroken;
  return take_named(object_json(arguments_));
}

// Waits for the whole call.
AnswerParser::Step AnswerParser::elements() {
  const std::string_view end_mark = trimmed(syntax_->call_end);
  const std::size_t end = buffer_.find(end_mark, std::max(at_, searched_));
  if (end_mark.empty()) return Step::kBroken;
  if (end == buffer_.npos) {
    searched_ = buffer_.size() - std::min(buffer_.size() - at_, end_mark.size());
    return Step::kWait;
  }
  searched_ = 0;
  const std::string_view text = std::string_view(buffer_).substr(at_, end - at_);
  at_ = end + end_mark.size();
  std::string_view schema;
  for (const ChatTool& tool : rules_.tools) {
    if (tool.name == name_) schema = tool.parameters;
  }
  return take_named(elements_to_json(*syntax_, text, schema));
}

// The value of an argument that is written without quotes: a text if the schema requires a text, or
// says nothing and the mark does.
std::string AnswerParser::parameter_json(std::string_view key, std::string_view text,
                                         bool is_text) const {
  const std::string_view before = syntax_->key_end;
  if (before.ends_with('\n') && text.starts_with('\n')) text.remove_prefix(1);
  if (syntax_->value_end.starts_with('\n') && text.ends_with('\n')) text.remove_suffix(1);
  const auto member = [](const std::optional<LiteralObject>& object, std::string_view name) {
    const std::string* json = object ? object->find(name) : nullptr;
    return json ? *json : std::string();
  };
  for (const ChatTool& tool : rules_.tools) {
    if (tool.name != name_) continue;
    const auto schema = read_literal_object(tool.parameters, '{', '}');
    const auto properties = read_literal_object(member(schema, "properties"), '{', '}');
    const auto property = read_literal_object(member(properties, key), '{', '}');
    const std::string type = member(property, "type");
    if (type == "\"string\"" || (is_text && type.empty())) return json_string(text);
  }
  const auto json = literal_to_json(text);
  return json ? *json : json_string(text);
}

AnswerParser::Step AnswerParser::after() {
  const std::size_t end = at_;
  skip_spaces();
  const std::string_view mark = trimmed(syntax_->call_end);
  const bool is_ended = syntax_->form == CallForm::kTagged || syntax_->form == CallForm::kElements;
  if (!is_ended && !mark.empty()) {
    if (at_ == buffer_.size() && !final_) {
      at_ = end;
      return Step::kWait;
    }
    const Step step = take_mark(mark);
    if (step == Step::kWait) {
      at_ = end;
      return Step::kWait;
    }
    if (step == Step::kBroken) at_ = end;
  } else {
    at_ = end;
  }
  INVARIANT(in_section_ > 0, "what is told is a call");
  if (in_thought_) thought_.append(buffer_, 0, at_);
  // The call is sent; later text cannot make it content again.
  drop(at_);
  primed_ = 0;
  lead_ = 0;
  marked_ = false;
  phase_ = Phase::kBetween;
  return thought_.size() > limits::kToolCallBytes ? Step::kBroken : Step::kGo;
}

bool AnswerParser::step_header() {
  const std::size_t begin = std::min(buffer_.find_first_not_of(kSpaces), buffer_.size());
  const std::string_view rest = std::string_view(buffer_).substr(begin);
  bool may_be = rest.empty();
  for (const std::string_view word :
       {"<|start|>", "<|channel|>", "<|message|>", "to=", "assistant"}) {
    may_be = may_be || rest.starts_with(word) || word.starts_with(rest);
  }
  constexpr std::string_view kMessage = "<|message|>";
  const std::size_t end = buffer_.find(kMessage);
  // The mark may begin at the last byte of a header, so the parser waits for the whole mark.
  if (may_be && end == buffer_.npos && buffer_.size() < kHeaderBytes + kMessage.size() && !final_)
    return false;
  analysis_ = to_function_ = false;
  if (may_be && end != buffer_.npos && end <= kHeaderBytes) {
    read_header(std::string_view(buffer_).substr(0, end));
    drop(end + kMessage.size());
  } else if (may_be && end == buffer_.npos && final_) {
    drop(buffer_.size());  // a header without a message has no content
  }
  state_ = State::kBody;
  return true;
}

void AnswerParser::read_header(std::string_view header) {
  const auto word_after = [&](std::string_view mark) {
    const std::size_t at = header.rfind(mark);
    if (at == header.npos) return std::string_view();
    const std::string_view rest = header.substr(at + mark.size());
    return rest.substr(0, rest.find_first_of(" <\n"));
  };
  analysis_ = word_after("<|channel|>") == "analysis";
  const std::string_view recipient = word_after("to=");
  to_function_ = !recipient.empty() && !rules_.tools.empty();
  name_ = tool_name(recipient);
  if (name_.starts_with("functions.")) name_.erase(0, std::string_view("functions.").size());
  if (to_function_ && name_.size() > limits::kToolNameBytes) to_function_ = false;
}

bool AnswerParser::step_body() {
  std::size_t found = buffer_.npos;
  std::size_t held = 0;
  std::size_t size = 0;
  for (const std::string_view mark : kBodyEnds) {
    const std::size_t at = buffer_.find(mark, searched_);
    if (at < found) {
      found = at;
      size = mark == "<|start|>" ? 0 : mark.size();
    }
    if (!final_) held = std::max(held, partial(buffer_, mark));
  }
  const bool ended = found != buffer_.npos;
  const std::size_t ready = ended ? found : buffer_.size() - held;
  const std::string_view text = std::string_view(buffer_).substr(0, ready);
  if (to_function_) {
    if (!ended && !final_ && buffer_.size() <= limits::kToolCallBytes) {
      searched_ = ready;
      return false;
    }
    const auto arguments =
        trimmed(text).empty() ? std::optional<std::string>("{}") : literal_to_json(text);
    if (!arguments || !emit({"", name_, *arguments})) tell(text);
    to_function_ = false;
  } else if (analysis_) {
    tell_reasoning(text);
  } else {
    tell(text);
  }
  drop(ready + size);
  if (!ended) return false;
  state_ = State::kHeader;
  return true;
}

}  // namespace hearth::model
