// Parses untrusted JSON with bounds: the caller limits the size, limits::kJsonDepth the depth,
// limits::kJsonValues the number of values. Objects keep the order of their keys, which chat
// templates show to the model. The last of duplicate keys counts. An error names what
// is wrong: numbers that overflow a double, NaN and Infinity, lone surrogates, invalid UTF-8, bytes
// after the value.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "coordinator/http/openai/errors.h"

namespace hearth::coordinator::http {

using OrderedJson = nlohmann::ordered_json;  // answers keep the order in which they are written
using Json = OrderedJson;

ApiResult<Json> parse_json(std::string_view text);  // never throws
// Adds a member without a look for an equal key, which the caller excludes: operator[] looks
// through all members, so a body of many would cost the square of their number.
void append_member(Json& object, std::string key, Json value);
std::string dump(const OrderedJson& value);  // invalid UTF-8 becomes U+FFFD
// Bytes as valid UTF-8: each that is broken becomes U+FFFD.
std::string valid_utf8(std::string_view bytes);

}  // namespace hearth::coordinator::http
