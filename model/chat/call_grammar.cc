#include "model/chat/call_grammar.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/check.h"
#include "base/limits.h"
#include "base/number.h"
#include "model/chat/elements.h"
#include "model/chat/literal.h"

namespace hearth::model {
namespace {

using Part = GrammarBuilder::Part;
using SourceKind = GrammarSource::Kind;

constexpr std::uint32_t kItems = 1'024;  // of a list in a form that is not JSON

std::string left_trimmed(std::string_view text) {
  return std::string(text.substr(std::min(text.find_first_not_of(kSpaces), text.size())));
}

std::string member(const std::optional<LiteralObject>& object, std::string_view name) {
  const std::string* json = object ? object->find(name) : nullptr;
  return json != nullptr ? *json : std::string();
}

class CallGrammar {
 public:
  CallGrammar(const ChatSyntax& syntax, const AnswerConstraint& constraint)
      : syntax_(syntax), constraint_(constraint) {
    bare_list_ = syntax.form == CallForm::kNamed && trigger().empty();
  }

  Result<std::shared_ptr<const Grammar>> build() {
    INVARIANT(!constraint_.calls_required || !constraint_.tools.empty(),
              "a call that is required has tools");
    Part whole = 0;
    if (syntax_.form == CallForm::kHarmony) {
      TRY(whole, messages_part());
    } else {
      TRY(whole, answer_part());
    }
    if (unmet_) return *unmet_;
    return grammar_.build(whole);
  }

 private:
  // Calls, or the other allowed form of the answer, after the thought that the prompt has begun.
  Result<Part> answer_part() {
    std::vector<Part> ways;
    if (!constraint_.tools.empty()) {
      TRY(const Part calls, calls_part());
      ways.push_back(is_framed() ? grammar_.sequence({grammar_.repeat(framed(text()), 0, 1), calls})
                                 : calls);
    }
    if (!constraint_.calls_required && constraint_.content) {
      ways.push_back(framed(grammar_.source(*constraint_.content)));
    } else if (!constraint_.calls_required && is_framed()) {
      ways.push_back(framed(text()));
    } else if (!constraint_.calls_required) {
      if (trigger().empty()) {
        return Error::of(ErrorCode::kUnsupported,
                         "calls of this model begin with no mark, so a grammar cannot tell them "
                         "from text; send tool_choice 'required'");
      }
      // Text that begins no call, and then calls or nothing.
      ways = {grammar_.sequence({text(), grammar_.repeat(ways.front(), 0, 1)})};
    }
    Part whole = grammar_.alternatives(ways);
    if (!trimmed(syntax_.answer_end).empty()) {
      whole = grammar_.sequence({whole, grammar_.repeat(mark(trimmed(syntax_.answer_end)), 0, 1)});
    }
    if (!thinks()) return whole;
    const Part spaces = grammar_.source({SourceKind::kRegex, "[ \\t\\r\\n]{0,4}"});
    return grammar_.sequence({thought(), spaces, whole});
  }

  // Content that begins no call.
  Part text() {
    std::vector<std::string> marks = syntax_.call_triggers();
    if (is_framed()) marks.emplace_back(trimmed(syntax_.content_end));
    return grammar_.text_without(marks);
  }
  bool is_framed() const { return !trimmed(syntax_.content_end).empty(); }
  // Content between its marks, the first of which the prompt may hold.
  Part framed(Part content) {
    if (!is_framed()) return content;
    const std::string_view begin = trimmed(syntax_.content_begin);
    const bool begun = trimmed(constraint_.prompt_tail).ends_with(begin);
    return grammar_.sequence(
        {mark(begun ? "" : begin), content, mark(trimmed(syntax_.content_end))});
  }

  // The text of a mark. Control tokens in it are generated as tokens.
  Part mark(std::string_view text) {
    std::vector<Part> parts;
    while (!text.empty()) {
      // The token that begins first; of several, the longest.
      std::size_t at = text.npos;
      const ControlToken* found = nullptr;
      for (const ControlToken& each : constraint_.controls) {
        const std::size_t begin = each.text.empty() ? text.npos : text.find(each.text);
        const bool longer =
            begin == at && found != nullptr && each.text.size() > found->text.size();
        if (begin == text.npos || (begin >= at && !longer)) continue;
        at = begin;
        found = &each;
      }
      parts.push_back(grammar_.literal(text.substr(0, at)));
      if (found == nullptr) break;
      if (found->ends && !unmet_) {
        unmet_ = Error::of(
            ErrorCode::kUnsupported, "this model writes '", found->text,
            "' inside its calls and also ends its answers with it, so its calls have no grammar");
      }
      parts.push_back(grammar_.control(found->token));
      text.remove_prefix(at + found->text.size());
    }
    return grammar_.sequence(parts);
  }

  bool has_control(std::string_view text) const {
    return std::ranges::any_of(constraint_.controls, [&](const ControlToken& each) {
      return !each.text.empty() && text.find(each.text) != text.npos;
    });
  }
  bool ends_answer(std::string_view text) const {
    return std::ranges::any_of(constraint_.controls, [&](const ControlToken& each) {
      return each.ends && each.text == text;
    });
  }

  // Any text up to the mark, and the mark. The text contains no control token: the parser would
  // take one that spells the mark for its end.
  Part until(std::string_view end) {
    if (!has_control(end)) return grammar_.until(end);
    return grammar_.sequence({grammar_.text_without({std::string(end)}), mark(end)});
  }

  // Harmony (gpt-oss): messages of a channel, each with a header. The text of a message never
  // contains what the parser takes for its end.
  Part message_text() {
    return grammar_.text_without({"<|end|>", "<|call|>", "<|return|>", "<|start|>"});
  }
  Result<Part> messages_part() {
    const std::string_view tail = constraint_.prompt_tail;
    const std::size_t begun = tail.rfind("<|message|>");
    const std::size_t start = tail.rfind("<|start|>");
    if (begun != tail.npos && (start == tail.npos || start < begun)) {
      // The answer continues the text of a message.
      if (constraint_.calls_required) {
        return Error::of(
            ErrorCode::kUnsupported,
            "the answer continues the text of the last message, so it cannot call a tool");
      }
      return constraint_.content ? grammar_.source(*constraint_.content) : message_text();
    }
    std::vector<Part> ways;
    if (!constraint_.tools.empty()) ways.push_back(message_calls());
    if (!constraint_.calls_required) ways.push_back(final_message());
    const Part whole = grammar_.alternatives(ways);
    if (ends_answer("<|end|>")) return whole;
    return grammar_.sequence({thought_message(), whole});
  }
  // A thought comes first, or none.
  Part thought_message() {
    const Part thought = grammar_.sequence({mark("<|channel|>analysis<|message|>"), message_text(),
                                            mark("<|end|><|start|>assistant")});
    return grammar_.repeat(thought, 0, 1);
  }
  Part final_message() {
    const Part text = constraint_.content ? grammar_.source(*constraint_.content) : message_text();
    return grammar_.sequence({mark("<|channel|>final<|message|>"), text});
  }
  // One call: its end is an end token. The recipient stands before the channel or behind it.
  Part message_calls() {
    std::vector<Part> ways;
    const Part type = grammar_.alternatives(
        {grammar_.literal(" json"), mark(" <|constrain|>json"), grammar_.literal("")});
    const Part message = mark("<|message|>");
    for (const ChatTool& tool : constraint_.tools) {
      const std::string to = " to=functions." + tool.name;
      const Part header = grammar_.alternatives(
          {grammar_.sequence({mark("<|channel|>commentary"), grammar_.literal(to)}),
           grammar_.sequence({grammar_.literal(to), mark("<|channel|>commentary")})});
      ways.push_back(grammar_.sequence({header, type, message, arguments(tool)}));
    }
    return grammar_.alternatives(ways);
  }

  // The mark that distinguishes a call from content.
  std::string trigger() const {
    const std::string_view section = trimmed(syntax_.section_begin);
    return std::string(section.empty() ? trimmed(syntax_.call_begin) : section);
  }

  bool thinks() const {
    const std::string_view tail = constraint_.prompt_tail;
    const std::string_view begin = trimmed(syntax_.think_begin);
    const std::string_view end = trimmed(syntax_.think_end);
    if (begin.empty() || end.empty()) return false;
    const std::size_t opened = tail.rfind(begin);
    const std::size_t closed = tail.rfind(end);
    return opened != tail.npos && (closed == tail.npos || closed < opened);
  }

  // The thought up to its end. If nothing follows, the parser treats a call in a thought as a call.
  Part thought() {
    const std::string end(trimmed(syntax_.think_end));
    if (constraint_.tools.empty()) return until(end);
    std::vector<std::string> marks = syntax_.call_triggers();
    marks.push_back(end);
    return grammar_.sequence({grammar_.text_without(marks), mark(end)});
  }

  Result<Part> calls_part() {
    const bool known = !(bare_list_ && syntax_.arguments != ArgumentForm::kPython);
    if (!known)
      return Error::of(ErrorCode::kUnsupported,
                       "the form in which this model writes calls has no grammar");
    std::vector<Part> first;
    std::vector<Part> next;
    const bool section = !trimmed(syntax_.section_begin).empty();
    for (const ChatTool& tool : constraint_.tools) {
      TRY(const Part call, call_part(tool));
      const Part end = mark(syntax_.call_end);
      const std::string begin = section ? syntax_.call_begin : left_trimmed(syntax_.call_begin);
      first.push_back(grammar_.sequence({mark(begin), call, end}));
      next.push_back(
          grammar_.sequence({mark(syntax_.separator), mark(syntax_.call_begin), call, end}));
    }
    const std::string begin = bare_list_ ? "[" : left_trimmed(syntax_.section_begin);
    const std::string end = bare_list_ ? "]" : std::string(syntax_.section_end);
    std::vector<Part> parts = {mark(begin), grammar_.alternatives(first)};
    // Without a mark, the parser reads one object as a call and the rest as text.
    if (constraint_.parallel_calls && (bare_list_ || !trigger().empty())) {
      parts.push_back(grammar_.repeat(grammar_.alternatives(next), 0, limits::kToolCalls - 1));
    }
    parts.push_back(mark(end));
    return grammar_.sequence(parts);
  }

  Result<Part> call_part(const ChatTool& tool) {
    if (syntax_.form == CallForm::kObject) {
      std::vector<Part> parts = {
          grammar_.literal("{\"" + syntax_.name_key + "\": " + json_string(tool.name) + ", \"" +
                           syntax_.arguments_key + "\": "),
          arguments(tool)};
      if (!syntax_.id_key.empty()) {
        parts.push_back(grammar_.literal(", \"" + syntax_.id_key + "\": \""));
        parts.push_back(id());
        parts.push_back(grammar_.literal("\""));
      }
      parts.push_back(grammar_.literal("}"));
      return grammar_.sequence(parts);
    }
    std::vector<Part> parts;
    if (syntax_.name_in_id) {
      parts.push_back(grammar_.literal("functions." + tool.name + ":"));
      parts.push_back(grammar_.source({SourceKind::kRegex, "[0-9]{1,3}"}));
    } else {
      parts.push_back(grammar_.literal(tool.name));
    }
    parts.push_back(mark(syntax_.name_end));
    if (!trimmed(syntax_.id_end).empty()) {
      parts.push_back(id());
      parts.push_back(mark(syntax_.id_end));
    }
    if (syntax_.form == CallForm::kNamed && syntax_.arguments == ArgumentForm::kJson) {
      parts.push_back(arguments(tool));
    } else {
      TRY(const Part list, parameters(tool));
      parts.push_back(list);
    }
    return grammar_.sequence(parts);
  }

  Part id() {
    return grammar_.source(
        {SourceKind::kRegex, syntax_.numbered ? "[0-9]{1,3}" : "[a-zA-Z0-9]{9}"});
  }

  // A schema without a type also allows other values, but arguments are always an object.
  Part arguments(const ChatTool& tool) {
    std::string schema = tool.parameters;
    const auto object = read_literal_object(schema, '{', '}');
    if (object && object->find("type") == nullptr) {
      LiteralObject typed = *object;
      typed.entries.emplace_back("type", "\"object\"");
      schema = object_json(typed);
    }
    return grammar_.source({SourceKind::kJsonSchema, schema}, "tool " + tool.name);
  }

  // Arguments one by one, in the order of the schema; those that are not required may be absent.
  Result<Part> parameters(const ChatTool& tool) {
    const auto schema = read_literal_object(tool.parameters, '{', '}');
    REQUIRE(schema, "tool ", tool.name, ": its parameters must be a JSON schema, an object");
    for (const auto& [key, json] : schema->entries) {
      const bool read = key == "type" || key == "properties" || key == "required" ||
                        key == "additionalProperties" || key == "$defs" || key == "definitions" ||
                        key == "description" || key == "title" || key == "$schema";
      if (!read) {
        return Error::of(ErrorCode::kUnsupported, "tool ", tool.name, ": '", key,
                         "' has no grammar in the form of calls of this model: /", key);
      }
    }
    const auto properties = read_literal_object(
        schema->find("properties") != nullptr ? member(schema, "properties") : "{}", '{', '}');
    REQUIRE(properties, "tool ", tool.name, ": 'properties' must be an object: /properties");
    if (syntax_.form == CallForm::kTagged) {
      return members(*schema, *properties, {}, [&](const auto& key, const auto& json) {
        return tagged_value(tool, *schema, key, json);
      });
    }
    if (syntax_.form == CallForm::kElements) {
      return members(*schema, *properties, {}, [&](const auto& key, const auto& json) {
        return element(tool, *schema, key, json, "/properties", 1);
      });
    }
    if (syntax_.arguments == ArgumentForm::kQuoted) {
      return members(*schema, *properties, {"{", ",", "}"}, [&](const auto& key, const auto& json) {
        return quoted_member(tool, *schema, key, json, "/properties", 1);
      });
    }
    return members(*schema, *properties, {"(", ", ", ")"}, [&](const auto& key, const auto& json) {
      return python_value(tool, *schema, key, json);
    });
  }

  // The text around the members of an object, and between two of them.
  struct Around {
    std::string_view open = {};
    std::string_view between = {};
    std::string_view close = {};
  };
  template <typename MemberPart>
  Result<Part> members(const LiteralObject& schema, const LiteralObject& properties,
                       const Around& around, const MemberPart& member_part) {
    const std::string required = member(schema, "required");
    // From the last to the first: `rest` follows a member, `open` follows none.
    Part rest = grammar_.literal(around.close);
    Part open = rest;
    for (auto each = properties.entries.rbegin(); each != properties.entries.rend(); ++each) {
      const auto& [key, json] = *each;
      TRY(const Part value, member_part(key, json));
      const bool needed = required.find(json_string(key)) != required.npos;
      const Part first = grammar_.sequence({value, rest});
      const Part later = around.between.empty()
                             ? first
                             : grammar_.sequence({grammar_.literal(around.between), value, rest});
      open = needed ? first : grammar_.alternatives({first, open});
      rest = needed ? later : grammar_.alternatives({later, rest});
    }
    return grammar_.sequence({grammar_.literal(around.open), open});
  }

  // --- {key:value} with texts between quotes of the model's own ---

  static Error no_form(const ChatTool& tool, const std::string& path, std::string_view keyword) {
    return Error::of(ErrorCode::kUnsupported, "tool ", tool.name, ": '", keyword,
                     "' has no grammar in the form of calls of this model: ", path, "/", keyword);
  }

  // A key is written without quotes, so the parser must be able to read it without quotes.
  Result<Part> quoted_member(const ChatTool& tool, const LiteralObject& root,
                             const std::string& key, const std::string& json,
                             const std::string& path, std::uint32_t depth) {
    const bool is_bare = !key.empty() && std::ranges::all_of(key, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
    if (!is_bare) return no_form(tool, path, key);
    TRY(const Part value, quoted_value(tool, root, json, path + "/" + key, depth));
    return grammar_.sequence({grammar_.literal(key + ":"), value});
  }

  // A value of a schema. Texts, lists and objects have a form of their own; the rest is JSON.
  Result<Part> quoted_value(const ChatTool& tool, const LiteralObject& root,
                            const std::string& json, const std::string& path, std::uint32_t depth) {
    const auto schema = read_literal_object(json, '{', '}');
    if (!schema || depth > limits::kGrammarNesting) return no_form(tool, path, "this schema");
    if (const std::string* list = schema->find("enum")) return quoted_choice(tool, *list, path);
    // Each once: a type that is named twice would double the work at every level.
    std::set<std::string> types;
    const std::string type = member(schema, "type");
    for (const std::string& each : read_literal_list(type).value_or(std::vector{type})) {
      if (const auto text = text_of_json(each)) types.insert(*text);
    }
    if (types.empty() && schema->find("properties") != nullptr) types = {"object"};
    if (types.empty() && schema->entries.empty()) return quoted_scalar();
    if (types.empty()) return no_form(tool, path, schema->entries.front().first);
    std::vector<Part> ways;
    for (const std::string& each : types) {
      TRY(const Part way, quoted_type(tool, root, *schema, each, path, depth));
      ways.push_back(way);
    }
    return grammar_.alternatives(ways);
  }

  Result<Part> quoted_type(const ChatTool& tool, const LiteralObject& root,
                           const LiteralObject& schema, const std::string& type,
                           const std::string& path, std::uint32_t depth) {
    const bool is_text = type == "string" && !trimmed(syntax_.quote).empty();
    std::vector<std::string_view> read = {"type",    "description", "title",
                                          "default", "examples",    "nullable"};
    if (type == "array") read.insert(read.end(), {"items", "minItems", "maxItems"});
    if (type == "object") {
      read.insert(read.end(), {"properties", "required", "additionalProperties"});
    }
    if (!is_text && type != "array" && type != "object") {
      LiteralObject single;  // a number, true, false, null: as JSON has them
      for (const auto& entry : schema.entries) {
        if (entry.first != "type") single.entries.push_back(entry);
      }
      single.entries.emplace_back("type", json_string(type));
      return json_value(tool, root, path, object_json(single));
    }
    for (const auto& [keyword, value] : schema.entries) {
      if (std::ranges::find(read, keyword) == read.end()) return no_form(tool, path, keyword);
    }
    if (is_text) return grammar_.sequence({mark(syntax_.quote), until(trimmed(syntax_.quote))});
    if (type == "array") return quoted_list(tool, root, schema, path, depth);
    const std::string* listed = schema.find("properties");
    const auto properties = read_literal_object(listed != nullptr ? *listed : "{}", '{', '}');
    if (!properties) return no_form(tool, path, "properties");
    if (properties->entries.empty() && member(schema, "additionalProperties") != "false") {
      const auto required = read_literal_list(member(schema, "required"));
      if (required && !required->empty()) return no_form(tool, path, "required");
      const Part one = grammar_.sequence(
          {grammar_.source({SourceKind::kRegex, "[A-Za-z_][A-Za-z0-9_]{0,63}:"}), quoted_scalar()});
      return list_of(one, 0, kItems, "{", "}");
    }
    return members(schema, *properties, {"{", ",", "}"}, [&](const auto& key, const auto& json) {
      return quoted_member(tool, root, key, json, path + "/properties", depth + 1);
    });
  }

  // How many parts a list may have.
  struct Counts {
    std::uint32_t least = 0;
    std::uint32_t most = kItems;
  };
  static Result<Counts> counts_of(const ChatTool& tool, const LiteralObject& schema,
                                  const std::string& path) {
    const auto count = [&](const char* keyword, std::uint32_t absent) {
      const std::string* text = schema.find(keyword);
      if (text == nullptr) return absent;
      return std::min(parse_number<std::uint32_t>(*text).value_or(kItems + 1), kItems + 1);
    };
    const std::uint32_t least = count("minItems", 0);
    const std::uint32_t most = count("maxItems", kItems);
    if (most > kItems) return no_form(tool, path, "maxItems");
    if (least > most) return no_form(tool, path, "minItems");
    return Counts{least, most};
  }

  Result<Part> quoted_list(const ChatTool& tool, const LiteralObject& root,
                           const LiteralObject& schema, const std::string& path,
                           std::uint32_t depth) {
    TRY(const Counts counts, counts_of(tool, schema, path));
    const std::string* items = schema.find("items");
    Part item = quoted_scalar();
    if (items != nullptr) {
      TRY(item, quoted_value(tool, root, *items, path + "/items", depth + 1));
    }
    return list_of(item, counts.least, counts.most, "[", "]");
  }

  // Any value that is neither a list nor an object: the form for a schema without constraints.
  Part quoted_scalar() {
    const Part rest =
        grammar_.source({SourceKind::kJsonSchema, R"({"type": ["number", "boolean", "null"]})"});
    if (trimmed(syntax_.quote).empty()) {
      return grammar_.alternatives(
          {rest, grammar_.source({SourceKind::kJsonSchema, R"({"type": "string"})"})});
    }
    return grammar_.alternatives(
        {rest, grammar_.sequence({mark(syntax_.quote), until(trimmed(syntax_.quote))})});
  }

  // From `least` to `most` of them, with commas between.
  Part list_of(Part item, std::uint32_t least, std::uint32_t most, std::string_view open,
               std::string_view close) {
    const Part next = grammar_.sequence({grammar_.literal(","), item});
    const Part some = grammar_.sequence(
        {item, grammar_.repeat(next, std::max(least, 1U) - 1, std::max(most, 1U) - 1)});
    std::vector<Part> ways;
    if (most > 0) ways.push_back(some);
    if (least == 0) ways.push_back(grammar_.literal(""));
    return grammar_.sequence(
        {grammar_.literal(open), grammar_.alternatives(ways), grammar_.literal(close)});
  }

  Result<Part> quoted_choice(const ChatTool& tool, const std::string& list,
                             const std::string& path) {
    const auto values = read_literal_list(list);
    if (!values || values->empty()) return no_form(tool, path, "enum");
    std::vector<Part> ways;
    for (const std::string& json : *values) {
      const auto text = text_of_json(json);
      if (json.starts_with('{') || json.starts_with('[')) return no_form(tool, path, "enum");
      if (!text || trimmed(syntax_.quote).empty()) {
        ways.push_back(grammar_.literal(json));
        continue;
      }
      if (text->find(trimmed(syntax_.quote)) != text->npos) return no_form(tool, path, "enum");
      ways.push_back(
          grammar_.sequence({mark(syntax_.quote), grammar_.literal(*text), mark(syntax_.quote)}));
    }
    return grammar_.alternatives(ways);
  }

  // A property's schema with the definitions that it may refer to.
  static std::string with_definitions(const LiteralObject& schema, const std::string& property) {
    LiteralObject out;
    for (const char* key : {"$defs", "definitions"}) {
      if (const std::string* json = schema.find(key)) out.entries.emplace_back(key, *json);
    }
    if (out.entries.empty()) return property;
    out.entries.emplace_back("allOf", "[" + property + "]");
    return object_json(out);
  }

  Part json_value(const ChatTool& tool, const LiteralObject& schema, const std::string& key,
                  const std::string& json) {
    return grammar_.source({SourceKind::kJsonSchema, with_definitions(schema, json)},
                           "tool " + tool.name + ", argument " + key);
  }

  Result<Part> python_value(const ChatTool& tool, const LiteralObject& schema,
                            const std::string& key, const std::string& json) {
    return grammar_.sequence({grammar_.literal(key + "="), json_value(tool, schema, key, json)});
  }

  // Whether only these keywords, and those that bind no value, stand in the schema.
  static Status check_keywords(const ChatTool& tool, const LiteralObject& schema,
                               const std::string& path,
                               std::initializer_list<std::string_view> read) {
    for (const auto& [keyword, value] : schema.entries) {
      const bool binds = keyword != "type" && keyword != "description" && keyword != "title" &&
                         keyword != "default" && keyword != "examples";
      if (binds && std::ranges::find(read, keyword) == read.end()) {
        return no_form(tool, path, keyword);
      }
    }
    return ok_status();
  }
  // A text up to the mark behind it, whose parts that end the text are `end`.
  Result<Part> plain_text(const ChatTool& tool, const LiteralObject& property,
                          const std::string& path, const std::string& end) {
    TRY_VOID(check_keywords(tool, property, path, {"enum"}));
    const std::string_view value_end = trimmed(end);
    const std::string* list = property.find("enum");
    if (list != nullptr) {
      REQUIRE(list->find(value_end) == list->npos, "tool ", tool.name,
              ": a text must not hold the mark that ends it: ", path, "/enum");
      return grammar_.sequence(
          {grammar_.source({SourceKind::kChoice, *list}, "tool " + tool.name), mark(end)});
    }
    const std::size_t last = end.rfind(value_end) + value_end.size();
    return grammar_.sequence({until(value_end), mark(end.substr(last))});
  }

  // <key>value</key>, with brackets of the model's own. Objects and lists are elements in turn.
  Result<Part> element(const ChatTool& tool, const LiteralObject& root, const std::string& key,
                       const std::string& json, const std::string& path, std::uint32_t depth) {
    const std::string own = path + "/" + key;
    const std::string begin = syntax_.parameter_begin + key + syntax_.key_end;
    const std::string end = syntax_.value_end + key + syntax_.key_end;
    const auto schema = read_literal_object(json, '{', '}');
    const bool is_key = !key.empty() && key.find_first_of("<>[] \t\r\n") == key.npos;
    if (!schema || !is_key || depth > limits::kGrammarNesting) {
      return no_form(tool, path, key);
    }
    if (may_be_text(json)) {
      TRY(const Part text, plain_text(tool, *schema, own, end));
      return grammar_.sequence({mark(begin), text});
    }
    TRY(const Part value, element_value(tool, root, *schema, json, own, depth));
    return grammar_.sequence({mark(begin), value, mark(end)});
  }
  Result<Part> element_value(const ChatTool& tool, const LiteralObject& root,
                             const LiteralObject& schema, const std::string& json,
                             const std::string& path, std::uint32_t depth) {
    const std::string type = member(schema, "type");
    const std::string* listed = schema.find("properties");
    if (type == "\"object\"" && listed != nullptr) {
      const auto properties = read_literal_object(*listed, '{', '}');
      if (!properties) return no_form(tool, path, "properties");
      TRY_VOID(
          check_keywords(tool, schema, path, {"properties", "required", "additionalProperties"}));
      return members(schema, *properties, {}, [&](const auto& key, const auto& each) {
        return element(tool, root, key, each, path + "/properties", depth + 1);
      });
    }
    const std::string* items = schema.find("items");
    if (type == "\"array\"" && items != nullptr) {
      TRY_VOID(check_keywords(tool, schema, path, {"items", "minItems", "maxItems"}));
      TRY(const Counts counts, counts_of(tool, schema, path));
      TRY(const Part item, element(tool, root, "item", *items, path, depth + 1));
      return grammar_.repeat(item, counts.least, counts.most);
    }
    return json_value(tool, root, path, json);
  }

  // The mark behind a key. For values that are no texts, it may name any other type.
  Part type_mark(bool is_text) {
    const std::string& end = syntax_.key_end;
    const std::size_t word = syntax_.type_word.empty() ? end.npos : end.find(syntax_.type_word);
    if (is_text || word == end.npos) return mark(end);
    return grammar_.sequence({mark(end.substr(0, word)),
                              grammar_.source({SourceKind::kRegex, "[a-z]{1,16}"}),
                              mark(end.substr(word + syntax_.type_word.size()))});
  }
  Result<Part> tagged_value(const ChatTool& tool, const LiteralObject& schema,
                            const std::string& key, const std::string& json) {
    const auto property = read_literal_object(json, '{', '}');
    const bool is_text = member(property, "type") == "\"string\"";
    const Part begin = grammar_.sequence(
        {mark(syntax_.parameter_begin), grammar_.literal(key), type_mark(is_text)});
    if (!is_text) {
      return grammar_.sequence(
          {begin, json_value(tool, schema, key, json), mark(syntax_.value_end)});
    }
    TRY(const Part text, plain_text(tool, *property, "/properties/" + key, syntax_.value_end));
    return grammar_.sequence({begin, text});
  }

  const ChatSyntax& syntax_;
  const AnswerConstraint& constraint_;
  GrammarBuilder grammar_;
  bool bare_list_ = false;  // [f(a=1), g()] without any mark
  std::optional<Error> unmet_;
};

}  // namespace

Result<std::shared_ptr<const Grammar>> answer_grammar(const ChatSyntax& syntax,
                                                      const AnswerConstraint& constraint) {
  return CallGrammar(syntax, constraint).build();
}

}  // namespace hearth::model
