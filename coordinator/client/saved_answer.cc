#include "coordinator/client/saved_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hex.h"
#include "base/limits.h"
#include "coordinator/client/parse_reply.h"

namespace hearth::client {
namespace {

using Json = nlohmann::json;

template <typename T>
T whole(const Json& value, std::uint64_t most, const char* what) {
  if (!value.is_number_integer() || value < 0 || value > most) {
    throw std::string(what) + " is not a whole number from 0 to " + std::to_string(most);
  }
  return value.get<T>();
}

Hash256 hash(const Json& value, const char* what) {
  const auto bytes =
      value.is_string() ? from_hex(value.get_ref<const std::string&>()) : std::optional<Bytes>();
  Hash256 out;
  if (!bytes || bytes->size() != out.bytes.size()) {
    throw std::string(what) + " is not 64 hex digits";
  }
  std::ranges::copy(*bytes, out.bytes.begin());
  return out;
}

std::string string_of(const Json& object, const char* name) {
  const Json text = object.value(name, Json());
  return text.is_string() ? text.get<std::string>() : "";
}

// Of a stream each names its place by `index`; a whole answer has them in order.
void take_calls(const Json& list, std::vector<SavedCall>& out) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& call = list[i];
    const Json function = call.is_object() ? call.value("function", Json()) : Json();
    if (!function.is_object()) throw std::string("tool_calls[] has no function");
    const Json index = call.value("index", Json());
    const auto at = whole<std::uint32_t>(index.is_null() ? Json(i) : index, limits::kToolCalls - 1,
                                         "tool_calls[].index");
    if (out.size() <= at) out.resize(at + 1);
    out[at].name += string_of(function, "name");
    out[at].arguments += string_of(function, "arguments");
  }
}

void take_text(const Json& choice, SavedChoice& out) {
  for (const char* name : {"message", "delta"}) {
    const Json inner = choice.value(name, Json());
    if (!inner.is_object()) continue;
    out.text += string_of(inner, "content");
    if (const std::string thought = string_of(inner, "reasoning_content"); !thought.empty()) {
      out.reasoning = out.reasoning.value_or("") + thought;
    }
    const Json calls = inner.value("tool_calls", Json());
    if (calls.is_array()) take_calls(calls, out.calls);
    return;
  }
  out.text += string_of(choice, "text");
}

void take_choice(const Json& choice, SavedAnswer& out) {
  if (!choice.is_object()) throw std::string("a choice must be an object");
  const Json index = choice.value("index", Json());
  const auto number =
      index.is_null() ? 0 : whole<std::uint32_t>(index, kSavedChoices - 1, "choices[].index");
  SavedChoice& saved = out.choices[number];
  take_text(choice, saved);
  if (const Json reason = choice.value("finish_reason", Json()); !reason.is_null()) {
    if (!reason.is_string()) throw std::string("choices[].finish_reason is not a text");
    saved.finish_reason = reason.get<std::string>();
  }
  const Json ids = choice.value("token_ids", Json());
  if (!ids.is_array()) return;
  if (!saved.token_ids) saved.token_ids.emplace();
  for (const Json& id : ids) {
    saved.token_ids->push_back(whole<TokenId>(id, INT32_MAX, "choices[].token_ids"));
  }
}

void take_hearth(const Json& hearth, SavedAnswer& out) {
  const Json receipt = hearth.value("receipt", Json());
  if (receipt.is_string()) out.receipt = receipt;
  if (const Json salt = hearth.value("salt", Json()); !salt.is_null())
    out.salt = hash(salt, "hearth.salt");
  // As a request takes it: the whole of int64.
  if (const Json seed = hearth.value("seed", Json()); !seed.is_null()) {
    if (!seed.is_number_integer()) throw std::string("hearth.seed is not a whole number");
    out.seed = seed.get<std::uint64_t>();
  }
  if (const Json most = hearth.value("max_tokens", Json()); !most.is_null()) {
    out.max_tokens = whole<std::uint32_t>(most, INT32_MAX, "hearth.max_tokens");
  }
  out.says_verified = out.says_verified || hearth.contains("verified");
  const Json hashes = hearth.value("hashes", Json());
  if (!hashes.is_array()) return;
  for (const Json& row : hashes) {
    if (!row.is_object()) throw std::string("a row of hearth.hashes must be an object");
    const Json choice = row.value("choice", Json());
    const auto index = choice.is_null() ? 0
                                        : whole<std::uint32_t>(choice, kSavedChoices - 1,
                                                               "hearth.hashes[].choice");
    const auto stage =
        whole<std::uint32_t>(row.value("stage", Json()), UINT16_MAX, "hearth.hashes[].stage");
    const auto position =
        whole<Position>(row.value("step", Json()), INT32_MAX, "hearth.hashes[].step");
    out.choices[index].hashes[stage][position] =
        hash(row.value("out", Json()), "hearth.hashes[].out");
  }
}

void take_answer(const Json& answer, SavedAnswer& out) {
  if (!answer.is_object()) throw std::string("it is not a JSON object");
  if (const Json error = answer.value("error", Json()); error.is_object()) {
    throw std::string("it is an error, not an answer");
  }
  if (const Json created = answer.value("created", Json()); !created.is_null()) {
    out.created = whole<std::int64_t>(created, INT64_MAX, "created");
  }
  const Json choices = answer.value("choices", Json());
  if (choices.is_array()) {
    for (const Json& choice : choices) take_choice(choice, out);
  }
  if (const Json hearth = answer.value("hearth", Json()); hearth.is_object())
    take_hearth(hearth, out);
}

Json parse(std::string_view text) {
  Json value = parse_reply(text);
  if (!value.is_object()) throw std::string("it is not a JSON object");
  return value;
}

// The last member `name` of an object, as it is written; empty: it has none, or an escape
// spells the name. `text` is valid JSON up to the first NUL.
std::string member_text(std::string_view text, std::string_view name) {
  const std::string key = '"' + std::string(name) + '"';
  std::string out;
  int depth = 0;
  bool is_value = false;
  std::size_t begin = 0;  // of the key, or of the value
  std::string_view member;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      const std::size_t first = at++;
      for (; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
      if (depth == 1 && !is_value) member = text.substr(first, at + 1 - first);
    } else if (depth == 1 && c == ':') {
      is_value = true;
      begin = at + 1;
    } else if (depth == 1 && (c == ',' || c == '}')) {
      if (is_value && member == key) out = text.substr(begin, at - begin);
      is_value = false;
    }
    depth += c == '{' || c == '[' ? 1 : (c == '}' || c == ']' ? -1 : 0);
  }
  return out;
}

// One `data:` line an event; other lines do not matter here. Without any it is no stream.
void take_stream(std::string_view text, SavedAnswer& out) {
  constexpr std::string_view kData = "data:";
  bool is_stream = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(kData)) continue;
    is_stream = true;
    line.remove_prefix(kData.size());
    if (line.find('{') == std::string_view::npos) continue;  // [DONE]
    take_answer(parse(line), out);
  }
  if (!is_stream) throw std::string("it is neither a JSON object nor a saved stream of events");
}

SavedAnswer read(std::string_view answer, std::string_view request) {
  SavedAnswer out;
  const std::size_t first = answer.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) throw std::string("it is empty");
  const bool object = answer[first] == '{';
  if (!object) {
    take_stream(answer, out);
  } else {
    Json value = parse(answer);
    if (value.contains("answer")) {
      take_answer(value["answer"], out);
      if (value.value("request", Json()).is_object()) out.request = member_text(answer, "request");
    } else {
      take_answer(value, out);
    }
  }
  if (!request.empty()) {
    (void)parse(request);
    out.request = request;
  }
  return out;
}

}  // namespace

Result<SavedAnswer> read_saved_answer(std::string_view answer, std::string_view request) {
  const std::string limit =
      "over " + std::to_string(kSavedAnswerBytes) + " bytes, which is the limit";
  REQUIRE(answer.size() <= kSavedAnswerBytes, "the answer is ", limit);
  REQUIRE(request.size() <= kSavedAnswerBytes, "the request is ", limit);
  SavedAnswer out;
  try {
    out = read(answer, request);
  } catch (const std::string& what) {
    return Error::invalid("the saved answer cannot be read: ", what);
  } catch (const Json::exception& bad) {
    return Error::invalid("the saved answer cannot be read: ", bad.what());
  }
  REQUIRE(!out.receipt.empty(),
          "the answer names no receipt in hearth.receipt: its server makes none, or its stream was "
          "not saved to the end");
  REQUIRE(!out.request.empty(), "the request is missing; pass its body with --request FILE");
  REQUIRE(out.salt != Hash256() && out.max_tokens > 0,
          "the answer has no hearth.salt or no hearth.max_tokens, by which its receipts are "
          "computed again");
  REQUIRE(!out.choices.empty(), "the answer has no choices");
  return out;
}

std::string write_saved_answer(const Json& request, const Json& head, const std::string& text,
                               const std::vector<TokenId>& token_ids,
                               const std::string& finish_reason) {
  const bool chat = request.contains("messages");
  Json choice = {{"index", 0}, {"finish_reason", finish_reason}, {"token_ids", token_ids}};
  if (chat) {
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  } else {
    choice["text"] = text;
  }
  Json answer = head;
  answer["object"] = chat ? "chat.completion" : "text_completion";
  answer["choices"] = Json::array({std::move(choice)});
  const Json file = {{"request", request}, {"answer", std::move(answer)}};
  return file.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth::client
