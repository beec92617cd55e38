// /tokenize, /detokenize and /apply-template as pure functions of a body.
#pragma once

#include "coordinator/http/api/api.h"

namespace hearth::coordinator::http {

// {content, add_special=false, parse_special=true, with_pieces=false} -> {tokens: [...]}; a piece
// that is not valid UTF-8 is an array of bytes.
ApiResult<OrderedJson> tokenize(const ServedModel& served, const Json& body);
// {tokens: [...]} -> {content}
ApiResult<OrderedJson> detokenize(const ServedModel& served, const Json& body);
// {messages: [...], add_generation_prompt=true} -> {prompt}, as a chat at `unix_seconds` has it
ApiResult<OrderedJson> apply_template(const ServedModel& served, const Json& body,
                                      std::int64_t unix_seconds);

}  // namespace hearth::coordinator::http
