// /tokenize, /detokenize and /apply-template as pure functions of a body.
#pragma once

#include "coordinator/http/api/api.h"

namespace hearth::coordinator::http {

// {content, add_special=false, parse_special=true, with_pieces=false} -> {tokens: [...]}; a piece
// that is not valid UTF-8 is an array of bytes.
ApiResult<OrderedJson> tokenize(const ServedModel& served, const Json& body);
// {tokens: [...]} -> {content}
ApiResult<OrderedJson> detokenize(const ServedModel& served, const Json& body);
// {messages: [...], add_generation_prompt=true} -> {prompt}
ApiResult<OrderedJson> apply_template(const ServedModel& served, const Json& body);

}  // namespace hearth::coordinator::http
