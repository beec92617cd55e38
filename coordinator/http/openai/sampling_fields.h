// The fields that shape sampling, common to both generation endpoints.
#pragma once

#include "coordinator/http/openai/fields.h"
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {

void parse_sampling(FieldReader& fields, const ModelBounds& bounds, GenerationRequest& request);
void parse_stop(FieldReader& fields, GenerationRequest& request);
void parse_stream(FieldReader& fields, GenerationRequest& request);

}  // namespace hearth::coordinator::http
