#include "model/chat/syntax.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "model/chat/literal.h"

namespace hearth::model {
namespace {

// Words that no template contains.
constexpr std::string_view kTool = "probetool";
constexpr std::string_view kKey = "probekey";
constexpr std::string_view kValue = "probevalue";
constexpr std::string_view kNumber = "7654321";
constexpr std::string_view kId = "probeid01";  // nine letters and digits, as Mistral wants
constexpr std::string_view kOtherTool = "othertool";
constexpr std::string_view kOtherKey = "otherkey";
constexpr std::string_view kOtherValue = "othervalue";
constexpr std::string_view kOtherId = "otherid02";
constexpr std::string_view kContent = "probecontent";
constexpr std::string_view kThought = "probethought";

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

ChatTool tool(std::string_view name, std::string_view key) {
  ChatTool out;
  out.name = name;
  out.description = "A function.";
  out.parameters = R"({"type": "object", "properties": {")" + std::string(key) +
                   R"(": {"type": "string", "description": "A text."}}, "required": [")" +
                   std::string(key) + R"("]})";
  out.text = R"({"type": "function", "function": {"name": ")" + out.name +
             R"(", "description": ")" + out.description + R"(", "parameters": )" + out.parameters +
             "}}";
  return out;
}

ChatToolCall call(std::string_view id, std::string_view name, std::string_view key,
                  std::string_view value) {
  return {std::string(id), std::string(name), "{" + quoted(key) + ": " + quoted(value) + "}"};
}

// Where a mark begins that the text does not close; the text's end without such a mark.
std::size_t open_mark(std::string_view text) {
  const std::size_t open = text.find_last_of("<[");
  const std::size_t close = text.find_last_of(">]");
  const bool unclosed = open != text.npos && (close == text.npos || close < open);
  return unclosed ? open : text.size();
}

class Prober {
 public:
  explicit Prober(const ChatTemplate& chat_template) : template_(chat_template) {}

  // Renders a user's message and these; nothing when the template refuses them.
  std::optional<std::string> render(std::vector<ChatMessage> messages, bool with_tools,
                                    bool objects = true, bool prompt = false) const {
    ChatTemplateInput input;
    input.messages = {{"user", "A question."}};
    for (ChatMessage& message : messages) input.messages.push_back(std::move(message));
    if (with_tools) input.tools = {tool(kTool, kKey), tool(kOtherTool, kOtherKey)};
    input.object_arguments = objects;
    input.add_generation_prompt = prompt;
    input.bos_token = "<s>";
    input.eos_token = "</s>";
    input.unix_seconds = 1'700'000'000;
    const auto pieces = template_.render(input);
    if (!pieces.ok()) return std::nullopt;
    std::string out;
    for (const PromptPiece& piece : pieces.value()) out += piece.text;
    return out;
  }

  // The text of a message with these calls that replaces the text of one with content, from its
  // role's header to its end, without the marks of content.
  std::optional<std::string> calls(const std::vector<ChatToolCall>& calls, bool objects,
                                   const ChatSyntax& found) const {
    ChatMessage message{"assistant", ""};
    message.tool_calls = calls;
    std::vector<ChatMessage> said = {message};
    for (const ChatToolCall& each : calls) {
      ChatMessage result{"tool", "A result."};
      result.name = each.name;
      result.tool_call_id = each.id;
      said.push_back(std::move(result));
    }
    // Most templates render a history that ends with calls. The others require results after them.
    auto with = render({message}, true, objects);
    if (!with) with = render(said, true, objects);
    const auto without = render({{"assistant", std::string(kContent)}}, true, objects);
    if (!with || !without) return std::nullopt;
    const std::size_t content = without->find(kContent);
    if (content == without->npos) return std::nullopt;
    const std::string_view before = std::string_view(*without).substr(0, content);
    const std::string_view after = std::string_view(*without).substr(content + kContent.size());
    // The mark of a call may begin as that of content does.
    std::size_t begin = 0;
    while (begin < before.size() && begin < with->size() && before[begin] == (*with)[begin])
      ++begin;
    begin = std::min(begin, open_mark(before.substr(0, begin)));
    std::string_view body = std::string_view(*with).substr(begin);
    if (const std::size_t result = body.find("A result."); result != body.npos) {
      body = body.substr(0, body.find(trimmed(after)));
    } else if (!after.empty() && body.ends_with(after)) {
      body.remove_suffix(after.size());
    } else if (!trimmed(after).empty() && trimmed(body).ends_with(trimmed(after))) {
      body = trimmed(body);
      body.remove_suffix(trimmed(after).size());
    }
    if (body.starts_with(found.content_end)) body.remove_prefix(found.content_end.size());
    if (!found.answer_end.empty()) body = body.substr(0, body.rfind(found.answer_end));
    return std::string(body);
  }

 private:
  const ChatTemplate& template_;
};

// The brackets of the JSON value around `at`.
std::optional<std::pair<std::size_t, std::size_t>> object_around(std::string_view text,
                                                                 std::size_t at) {
  for (std::size_t open = text.rfind('{', at); open != text.npos;
       open = open == 0 ? text.npos : text.rfind('{', open - 1)) {
    LiteralScanner scanner(false);
    const auto size = scanner.end(text.substr(open));
    if (size && open + *size > at && literal_to_json(text.substr(open, *size))) {
      return std::pair(open, open + *size);
    }
  }
  return std::nullopt;
}

std::string common_suffix(std::string_view a, std::string_view b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[a.size() - 1 - n] == b[b.size() - 1 - n]) ++n;
  return std::string(a.substr(a.size() - n));
}

std::string common_prefix(std::string_view a, std::string_view b) {
  const auto ends = std::ranges::mismatch(a, b);
  return std::string(a.substr(0, static_cast<std::size_t>(ends.in1 - a.begin())));
}

// From what stands before the first call, between two calls and after the last one to marks.
void set_marks(std::string_view before, std::string_view between, std::string_view after,
               ChatSyntax& out) {
  INVARIANT(out.form != CallForm::kHarmony, "marks are of calls, not of messages");
  out.call_end = common_prefix(after, between);
  out.call_end.resize(open_mark(out.call_end));
  const std::string_view next = between.substr(out.call_end.size());
  out.call_begin = common_suffix(before, next);
  // A mark is not cut within its brackets.
  if (out.call_begin.size() < before.size()) {
    const std::size_t open = out.call_begin.find_first_of("<[");
    const std::size_t close = out.call_begin.find_first_of(">]");
    if (close != std::string::npos && (open == std::string::npos || close < open)) {
      out.call_begin.erase(0, close + 1);
    }
  }
  out.section_begin = before.substr(0, before.size() - out.call_begin.size());
  out.separator = next.substr(0, next.size() - std::min(next.size(), out.call_begin.size()));
  out.section_end = after.substr(out.call_end.size());
}

// Marks without what belongs to the thoughts before them and to the turn after them.
void tidy_marks(ChatSyntax& out) {
  const std::size_t thought = out.section_begin.find(out.think_end);
  if (thought != std::string::npos) {
    out.section_begin.erase(0, thought + out.think_end.size());
  }
  if (trimmed(out.section_begin).empty()) {
    out.section_begin.clear();
    out.section_end.clear();
  }
  // Where marks have brackets of their own in them, the end is known exactly.
  const bool exact = out.form == CallForm::kElements || !out.answer_end.empty();
  const std::size_t close = exact ? std::string::npos : out.section_end.find('>');
  if (close != std::string::npos) out.section_end.resize(close + 1);
  if (out.form == CallForm::kNamed && trimmed(out.call_begin + out.section_begin).empty()) {
    out.call_begin = trimmed(out.separator);
    out.separator.clear();
  }
  // functions.NAME:INDEX, which is the id as well.
  std::size_t digits = 1;
  while (digits < out.name_end.size() && out.name_end[digits] >= '0' &&
         out.name_end[digits] <= '9') {
    ++digits;
  }
  if (out.name_end.starts_with(':') && digits > 1) {
    out.name_end.erase(0, digits);
    out.name_in_id = true;
    constexpr std::string_view kNamespace = "functions.";
    if (out.call_begin.ends_with(kNamespace)) {
      out.call_begin.resize(out.call_begin.size() - kNamespace.size());
    }
  }
}

struct Span2 {
  std::size_t begin;
  std::size_t end;
};

// {"name": "probetool", "arguments": {...}}, alone or in a list.
bool read_objects(std::string_view one, std::string_view two, ChatSyntax& out) {
  const auto find = [](std::string_view text, std::string_view name) -> std::optional<Span2> {
    const std::size_t at = text.find(quoted(name));
    const auto object = at == text.npos ? std::nullopt : object_around(text, at);
    if (!object) return std::nullopt;
    return Span2{object->first, object->second};
  };
  const auto first = find(one, kTool);
  const auto left = find(two, kTool);
  const auto right = find(two, kOtherTool);
  if (!first) return false;
  const std::string_view text = one.substr(first->begin, first->end - first->begin);
  const auto object = read_literal_object(text, '{', '}');
  if (!object) return false;
  bool named = false;
  for (const auto& [key, json] : object->entries) {
    if (json == quoted(kTool)) {
      out.name_key = key;
      named = true;
    } else if (json == quoted(kId)) {
      out.id_key = key;
    } else if (json.find(kKey) != json.npos) {
      out.arguments_key = key;
    }
  }
  // Some templates nest the function in an object with a type; then the outer object is the call.
  if (!named || text.find(kKey) == text.npos) return false;
  out.form = CallForm::kObject;
  const std::string_view before = one.substr(0, first->begin);
  const std::string_view after = one.substr(first->end);
  if (left && right && right->begin >= left->end) {
    set_marks(before, two.substr(left->end, right->begin - left->end), after, out);
  } else {
    out.call_begin = before;
    out.call_end = after;
  }
  return true;
}

// NAME mark {"probekey": "probevalue"}
bool read_named(std::string_view one, std::string_view two, ChatSyntax& out) {
  std::size_t name = one.find(kTool);
  std::size_t name_size = kTool.size();
  const std::size_t id = one.find(kId);
  if (name == one.npos && id != one.npos) {
    out.name_in_id = true;
    name = id;
    name_size = kId.size();
  }
  const std::size_t key = name == one.npos ? name : one.find(kKey, name);
  if (key == one.npos) return false;
  const auto find_end = [](std::string_view text, std::size_t open, const ChatSyntax& syntax) {
    LiteralScanner scanner(syntax.arguments == ArgumentForm::kPython, syntax.quote);
    const auto size = scanner.end(text.substr(open));
    return size ? open + *size : text.npos;
  };
  const std::size_t open = one.find_last_of("{(", key);
  if (open == one.npos || open < name) return false;
  const std::string_view head = one.substr(open + 1, key - open - 1);
  const std::size_t value = one.find(kValue, key);
  if (value == one.npos) return false;
  const std::string_view mid = one.substr(key + kKey.size(), value - key - kKey.size());
  if (one[open] == '(' && head.empty() && mid.starts_with('=')) {
    out.arguments = ArgumentForm::kPython;
  } else if (one[open] == '{' && trimmed(head) == "\"" && trimmed(mid).starts_with('"')) {
    out.arguments = ArgumentForm::kJson;
  } else if (one[open] == '{' && head.empty() && mid.starts_with(':')) {
    out.arguments = ArgumentForm::kQuoted;
    out.quote = trimmed(mid.substr(1));
    if (out.quote == "\"") out.quote.clear();
  } else {
    return false;
  }
  const std::size_t end = find_end(one, open, out);
  if (end == one.npos) return false;
  out.form = CallForm::kNamed;
  const std::string_view between = one.substr(name + name_size, open - name - name_size);
  out.name_end = between;
  if (!out.name_in_id && id != one.npos && id > name && id < open) {
    out.name_end = one.substr(name + name_size, id - name - name_size);
    out.id_end = one.substr(id + kId.size(), open - id - kId.size());
  }
  const std::string_view other = out.name_in_id ? kOtherId : kOtherTool;
  const std::size_t next = two.find(other);
  const std::size_t first = two.find(out.name_in_id ? kId : kTool);
  const std::size_t first_open = first == two.npos ? first : two.find(one[open], first);
  const std::size_t first_end =
      first_open == two.npos ? first_open : find_end(two, first_open, out);
  if (first_end != two.npos && next != two.npos && next >= first_end) {
    set_marks(one.substr(0, name), two.substr(first_end, next - first_end), one.substr(end), out);
  } else {
    out.call_begin = one.substr(0, name);
    out.call_end = one.substr(end);
  }
  return true;
}

// A number within name_end that counts the calls: index="1" and then index="2".
void read_number(std::string_view two, ChatSyntax& out) {
  const std::size_t other = two.find(kOtherTool);
  if (other == two.npos) return;
  const std::string_view next = two.substr(other + kOtherTool.size());
  const std::size_t digit = common_prefix(out.name_end, next).size();
  const auto holds = [&](std::string_view text, char wanted) {
    return digit < text.size() && text[digit] == wanted;
  };
  const bool counts = (holds(out.name_end, '0') && holds(next, '1')) ||
                      (holds(out.name_end, '1') && holds(next, '2'));
  if (!counts || !next.substr(digit + 1).starts_with(out.name_end.substr(digit + 1))) return;
  out.id_end = out.name_end.substr(digit + 1);
  out.name_end.resize(digit);
  out.numbered = true;
}

// The word of key_end that another one replaces for a number.
void read_type_word(std::string_view number, ChatSyntax& out) {
  const std::size_t key = number.find(kKey);
  const std::size_t value = key == number.npos ? key : number.find(kNumber, key);
  if (value == number.npos) return;
  const std::string_view end = number.substr(key + kKey.size(), value - key - kKey.size());
  const auto is_letter = [&](std::size_t at) {
    return at < out.key_end.size() && out.key_end[at] >= 'a' && out.key_end[at] <= 'z';
  };
  std::size_t begin = common_prefix(out.key_end, end).size();
  std::size_t last = out.key_end.size() - common_suffix(out.key_end, end).size();
  if (begin >= last) return;
  // Both words whole, where they begin or end alike.
  while (begin > 0 && is_letter(begin - 1)) --begin;
  while (is_letter(last)) ++last;
  for (std::size_t at = begin; at < last; ++at) {
    if (!is_letter(at)) return;
  }
  out.type_word = out.key_end.substr(begin, last - begin);
}

// NAME mark (mark KEY mark VALUE mark KEY mark)*, as in <city>Paris</city>, with brackets of the
// model's own.
bool read_elements(std::string_view one, std::string_view two, std::string_view pair,
                   ChatSyntax& out) {
  const auto after = [](std::string_view text, std::string_view word, std::size_t from) {
    const std::size_t at = from == text.npos ? from : text.find(word, from);
    return at == text.npos ? at : at + word.size();
  };
  const std::size_t name = after(one, kTool, 0);
  const std::size_t key = after(one, kKey, name);
  const std::size_t value = after(one, kValue, key);
  const std::size_t again = after(one, kKey, value);
  if (again == one.npos) return false;
  out.key_end = one.substr(key, value - kValue.size() - key);
  out.value_end = one.substr(value, again - kKey.size() - value);
  const std::string close = out.value_end + std::string(kKey) + out.key_end;
  const std::size_t pair_close = pair.find(close);
  const std::size_t pair_key = after(pair, kOtherKey, pair_close);
  if (trimmed(out.key_end).empty() || !one.substr(value).starts_with(close) ||
      pair_key == pair.npos) {
    return false;
  }
  const std::size_t middle = pair_close + close.size();
  out.parameter_begin = trimmed(pair.substr(middle, pair_key - kOtherKey.size() - middle));
  const std::string_view before_key = one.substr(name, key - kKey.size() - name);
  if (!before_key.ends_with(out.parameter_begin) ||
      !out.value_end.starts_with(out.parameter_begin)) {
    return false;
  }
  out.name_end = before_key.substr(0, before_key.size() - out.parameter_begin.size());
  out.form = CallForm::kElements;
  const std::size_t left = after(two, close, 0);
  const std::size_t right = after(two, kOtherTool, left);
  if (right == two.npos) return false;
  const std::string_view before = one.substr(0, name - kTool.size());
  const std::string_view between = two.substr(left, right - kOtherTool.size() - left);
  const std::string_view rest = one.substr(value + close.size());
  // A mark ends where the next one begins.
  out.call_end = common_prefix(rest, between);
  const std::size_t last = out.call_end.rfind(out.parameter_begin);
  if (last != out.call_end.npos &&
      out.call_end.find(out.key_end, last + out.parameter_begin.size()) == out.call_end.npos) {
    out.call_end.resize(last);
  }
  const std::string_view next = between.substr(out.call_end.size());
  out.call_begin = common_suffix(before, next);
  out.section_begin = before.substr(0, before.size() - out.call_begin.size());
  out.separator = next.substr(0, next.size() - out.call_begin.size());
  out.section_end = rest.substr(out.call_end.size());
  return !trimmed(out.call_end).empty() && !trimmed(out.call_begin).empty();
}

// NAME mark (mark KEY mark VALUE mark)*
bool read_tagged(std::string_view one, std::string_view two, std::string_view pair,
                 ChatSyntax& out) {
  const std::size_t name = one.find(kTool);
  const std::size_t key = name == one.npos ? name : one.find(kKey, name);
  const std::size_t value = key == one.npos ? key : one.find(kValue, key);
  if (value == one.npos) return false;
  const std::string_view before_key = one.substr(name + kTool.size(), key - name - kTool.size());
  out.key_end = one.substr(key + kKey.size(), value - key - kKey.size());
  const std::string_view rest = one.substr(value + kValue.size());
  // The text between two arguments ends a value and begins a parameter.
  const std::size_t pair_value = pair.find(kValue);
  const std::size_t pair_key =
      pair_value == pair.npos ? pair_value : pair.find(kOtherKey, pair_value);
  if (pair_key == pair.npos || trimmed(out.key_end).empty()) return false;
  const std::size_t value_end = pair_value + kValue.size();
  const std::string_view middle = pair.substr(value_end, pair_key - value_end);
  const std::string common = common_suffix(before_key, middle);
  const std::size_t open = common.find('<') == common.npos ? common.find('[') : common.find('<');
  if (open == common.npos) return false;
  out.parameter_begin = common.substr(open);
  // What ends every value, also the last one, does not begin a parameter.
  std::size_t shared = common_prefix(middle, rest).size();
  shared = open_mark(middle.substr(0, shared));
  const std::size_t begun = middle.size() - out.parameter_begin.size();
  if (shared > begun) out.parameter_begin.erase(0, shared - begun);
  out.name_end = before_key.substr(0, before_key.size() - out.parameter_begin.size());
  const std::string_view end = middle.substr(0, middle.size() - out.parameter_begin.size());
  out.value_end = common_prefix(end, rest);
  if (trimmed(out.value_end).empty()) return false;
  out.form = CallForm::kTagged;
  const std::string_view after = rest.substr(out.value_end.size());
  const std::size_t second = two.find(kOtherTool);
  const std::size_t first_value = two.find(kValue);
  const std::size_t left =
      first_value == two.npos ? first_value : first_value + kValue.size() + out.value_end.size();
  read_number(two, out);
  if (second != two.npos && left <= second) {
    set_marks(one.substr(0, name), two.substr(left, second - left), after, out);
  } else {
    out.call_begin = one.substr(0, name);
    out.call_end = after;
  }
  return !trimmed(out.call_end).empty() && !trimmed(out.call_begin).empty();
}

// The form of calls whose arguments the template gets as objects, or as their text.
std::optional<ChatSyntax> read_form(const Prober& probe, bool objects, const ChatSyntax& known) {
  const ChatToolCall first = call(kId, kTool, kKey, kValue);
  const ChatToolCall second = call(kOtherId, kOtherTool, kOtherKey, kOtherValue);
  ChatToolCall both = first;
  both.arguments = "{" + quoted(kKey) + ": " + quoted(kValue) + ", " + quoted(kOtherKey) + ": " +
                   quoted(kOtherValue) + "}";
  const auto one = probe.calls({first}, objects, known);
  if (!one || one->find(kKey) == one->npos) return std::nullopt;
  // Written as a string, or within brackets of the template's own.
  const std::size_t raw = one->find(first.arguments);
  if (!objects && (raw == one->npos || (raw > 0 && (*one)[raw - 1] == '{'))) return std::nullopt;
  const std::string two = probe.calls({first, second}, objects, known).value_or("");
  const std::string pair = probe.calls({both}, objects, known).value_or("");
  ChatSyntax found = known;
  found.object_arguments = objects;
  if (one->find("<|channel|>") != one->npos && one->find("<|message|>") != one->npos) {
    found.form = CallForm::kHarmony;
    found.thinks = true;
  } else if (ChatSyntax form = found; read_objects(*one, two, form)) {
    found = form;
  } else if (form = found; read_named(*one, two, form)) {
    found = form;
  } else if (form = found; read_elements(*one, two, pair, form)) {
    found = form;
  } else if (form = found; read_tagged(*one, two, pair, form)) {
    ChatToolCall number = first;
    number.arguments = "{" + quoted(kKey) + ": " + std::string(kNumber) + "}";
    read_type_word(probe.calls({number}, objects, known).value_or(""), form);
    found = form;
  } else {
    return std::nullopt;
  }
  tidy_marks(found);
  return found;
}

bool marks_each_argument(const std::optional<ChatSyntax>& found) {
  return found && (found->form == CallForm::kTagged || found->form == CallForm::kElements);
}

bool read_calls(const Prober& probe, ChatSyntax& out) {
  // A template that writes text unchanged reproduces what the model wrote. If it has marks for each
  // argument, though, the model writes those, and text is for what it wrote wrong.
  auto found = read_form(probe, false, out);
  if (!marks_each_argument(found)) {
    auto form = read_form(probe, true, out);
    if (!found || marks_each_argument(form)) found = std::move(form);
  }
  if (found) out = *found;
  return found.has_value();
}

// Templates that render tools but no calls explain the form of a call in words.
bool read_words(std::string_view text, ChatSyntax& out) {
  const auto has = [&](std::string_view word) { return text.find(word) != text.npos; };
  if (has("<|tool_list_start|>") || has("<|tool_call_start|>") ||
      has("List of tools: [")) {  // LFM2
    out.form = CallForm::kNamed;
    out.arguments = ArgumentForm::kPython;
    out.section_begin = "<|tool_call_start|>[";
    out.section_end = "]<|tool_call_end|>";
    out.separator = ", ";
  } else if (has("[func_name1(")) {  // Llama 3.2 and 4
    out.form = CallForm::kNamed;
    out.arguments = ArgumentForm::kPython;
    out.separator = ", ";
  } else if (has("<|tool_call|>") || has("<|tool|>")) {  // Granite 3, Phi 4
    out.section_begin = "<|tool_call|>[";
    out.section_end = has("<|tool|>") ? "]<|/tool_call|>" : "]";
    out.separator = ", ";
  } else if (has("functools[")) {  // Firefunction
    out.section_begin = " functools[";
    out.section_end = "]";
    out.separator = ", ";
  } else {
    return false;
  }
  return true;
}

// The pairs of marks that models think between.
constexpr std::pair<std::string_view, std::string_view> kThoughts[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel>thought", "<channel|>"},
    {"<thinking>", "</thinking>"},
    {"<mm:think>", "</mm:think>"},
    {"<|think|>", "<|/think|>"},
    {"<|open|>think<|sep|>", "<|close|>think<|sep|>"},
};

void read_thoughts(const Prober& probe, ChatSyntax& out) {
  std::string seen;
  ChatMessage message{"assistant", std::string(kContent)};
  message.reasoning = kThought;
  for (const bool last : {true, false}) {
    std::vector<ChatMessage> messages = {message};
    if (!last) messages.push_back({"user", "Another."});
    const auto text = probe.render(messages, false);
    if (text && text->find(kThought) != text->npos) seen += *text;
  }
  if (const auto prompt = probe.render({}, false, true, true)) seen += *prompt;
  for (const auto& [begin, end] : kThoughts) {
    if (seen.find(begin) == seen.npos) continue;
    out.thinks = true;
    out.think_begin = begin;
    out.think_end = end;
    return;
  }
}

// The marks around content: what stands between a thought and content, and what ends content in
// messages with and without calls.
void read_content(const Prober& probe, ChatSyntax& out) {
  if (!out.thinks) return;
  ChatMessage message{"assistant", std::string(kContent)};
  message.reasoning = kThought;
  const auto plain = probe.render({message}, true);
  message.tool_calls = {call(kId, kTool, kKey, kValue)};
  const auto calls = probe.render({message}, true);
  if (!plain || !calls) return;
  const auto after_content = [](std::string_view text) {
    const std::size_t at = text.find(kContent);
    return at == text.npos ? std::string_view() : text.substr(at + kContent.size());
  };
  const std::size_t content = plain->find(kContent);
  std::size_t thought = plain->find(kThought);
  if (thought != plain->npos) thought = plain->find(out.think_end, thought);
  if (content == plain->npos || thought == plain->npos || thought > content) return;
  thought += out.think_end.size();
  const std::string begin(trimmed(std::string_view(*plain).substr(thought, content - thought)));
  const std::string_view after = after_content(*plain);
  std::string end = common_prefix(after, after_content(*calls));
  end.resize(open_mark(end));
  end = trimmed(end);
  if (begin.empty() || end.empty()) return;
  out.content_begin = begin;
  out.content_end = end;
  // The last mark is the end token.
  out.answer_end = trimmed(trimmed(after).substr(end.size()));
  out.answer_end.resize(out.answer_end.rfind('<') == std::string::npos ? 0
                                                                       : out.answer_end.rfind('<'));
}

}  // namespace

std::vector<std::string> ChatSyntax::marks() const {
  std::vector<std::string> out = {section_begin, section_end,   call_begin,      call_end,
                                  separator,     name_end,      id_end,          quote,
                                  key_end,       value_end,     parameter_begin, think_begin,
                                  think_end,     content_begin, content_end,     answer_end};
  if (form == CallForm::kHarmony) {
    for (const char* mark : {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>",
                             "<|return|>", "<|constrain|>"}) {
      out.emplace_back(mark);
    }
  }
  std::erase_if(out, [](const std::string& mark) { return trimmed(mark).empty(); });
  return out;
}

std::string ChatSyntax::inner_begin() const {
  const std::string_view mark = trimmed(call_begin);
  const std::size_t space = mark.find_last_of(kSpaces);
  if (space == mark.npos) return {};
  const std::string_view last = mark.substr(space + 1);
  const bool is_tag = last.size() > 2 && last.front() == '<';
  return is_tag ? std::string(last) : std::string();
}

std::vector<std::string> ChatSyntax::call_triggers() const {
  std::vector<std::string> out;
  for (const std::string* mark : {&section_begin, &call_begin}) {
    const std::string_view text = trimmed(*mark);
    out.emplace_back(text.substr(0, text.find_first_of(kSpaces)));
  }
  out.push_back(inner_begin());
  std::erase_if(out, [](const std::string& each) { return each.empty(); });
  return out;
}

ChatSyntax find_chat_syntax(const ChatTemplate& chat_template) {
  const Prober probe(chat_template);
  ChatSyntax out;
  read_thoughts(probe, out);
  read_content(probe, out);
  if (read_calls(probe, out)) return out;
  out.describes_tools = true;
  out.object_arguments = false;
  out.form = CallForm::kObject;
  out.call_begin = "<tool_call>\n";
  out.call_end = "\n</tool_call>";
  out.separator = "\n";
  // If a template renders tools but no calls, only its words show the form.
  const auto with = probe.render({}, true, true, true);
  const auto without = probe.render({}, false, true, true);
  if (!with || !without || *with == *without) return out;
  ChatSyntax told;
  told.object_arguments = false;
  told.thinks = out.thinks;
  told.think_begin = out.think_begin;
  told.think_end = out.think_end;
  told.content_begin = out.content_begin;
  told.content_end = out.content_end;
  told.answer_end = out.answer_end;
  if (read_words(*with, told)) return told;
  out.describes_tools = false;
  return out;
}

void describe_tools(const ChatSyntax& syntax, ChatTemplateInput& input) {
  if (!syntax.describes_tools) return;
  std::string words;
  if (!input.tools.empty()) {
    words = "You may call functions. They are described in JSON, one a line:\n";
    for (const ChatTool& each : input.tools) words += each.text + "\n";
    words += "To call one, write a JSON object with its name and arguments, alone:\n" +
             syntax.call_begin + R"({"name": "NAME", "arguments": {}})" + syntax.call_end;
  }
  input.tools.clear();
  for (ChatMessage& message : input.messages) {
    for (const ChatToolCall& each : message.tool_calls) {
      if (!message.content.empty()) message.content += "\n";
      message.content += syntax.call_begin + "{\"" + syntax.name_key +
                         "\": " + json_string(each.name) + ", \"" + syntax.arguments_key +
                         "\": " + each.arguments + "}" + syntax.call_end;
    }
    message.tool_calls.clear();
    if (message.role != "tool") continue;
    message.role = "user";
    message.content = "<tool_response>\n" + message.content + "\n</tool_response>";
    message.tool_call_id.clear();
    message.name.clear();
  }
  // Results of one turn are one message: many templates want the roles to alternate.
  std::vector<ChatMessage> joined;
  bool result = false;
  for (ChatMessage& message : input.messages) {
    const bool now = message.role == "user" && message.content.starts_with("<tool_response>\n");
    if (now && result) {
      joined.back().content += "\n" + message.content;
    } else {
      joined.push_back(std::move(message));
    }
    result = now;
  }
  input.messages = std::move(joined);
  if (words.empty()) return;
  if (!input.messages.empty() && input.messages.front().role == "system") {
    input.messages.front().content += "\n\n" + words;
  } else {
    input.messages.insert(input.messages.begin(), {"system", words});
  }
}

}  // namespace hearth::model
