// Fields of OpenAI's, vLLM's, llama.cpp's and others' requests that would change the answer and
// that Hearth does not support: they are refused by name. Fields without effect are accepted, and
// so are values that request nothing.
#pragma once

#include <string_view>

#include "coordinator/http/openai/fields.h"

namespace hearth::coordinator::http {

// `supported`: a field of the list that this route supports.
void refuse_unsupported(FieldReader& request, std::string_view supported = {});
// Fields of a chat, in a completion.
void refuse_chat_fields(FieldReader& request);
// The same for one message of a chat.
void refuse_unsupported_message(FieldReader& message);

}  // namespace hearth::coordinator::http
