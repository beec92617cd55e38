// The parts of a chat request about tools, the form of the answer and what the model thinks: tools,
// tool_choice, response_format and its kin, chat_template_kwargs and the like. Pure functions.
#pragma once

#include "coordinator/http/openai/fields.h"
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {

// tools, tool_choice and parallel_tool_calls.
void parse_tools(FieldReader& fields, GenerationRequest& request);
// tool_calls of an assistant's message.
std::vector<model::ChatToolCall> parse_tool_calls(FieldReader& message);
// response_format, json_schema, grammar, guided_* and structured_outputs: at most one of them.
void parse_format(FieldReader& fields, GenerationRequest& request);
// reasoning_effort, enable_thinking, chat_template_kwargs, add_generation_prompt and
// continue_final_message.
void parse_template_fields(FieldReader& fields, GenerationRequest& request);

// The name of the field that requires a grammar mask, or null.
const char* field_that_needs_mask(const GenerationRequest& request);

}  // namespace hearth::coordinator::http
