// Reads the requests that an earlier process stored, and continues them. The rows are untrusted: a
// program that can write to the store's file may have written them.
#pragma once

#include <memory>
#include <vector>

#include "coordinator/http/api/api.h"
#include "coordinator/store/requests.h"

namespace hearth::coordinator::http {

// Continues the requests that were running, and keeps the answers of the others for their remaining
// time. Socket thread, once, before the first request. Rows that cannot be read are logged and
// removed.
void resume_requests(const std::shared_ptr<Api>& api, std::vector<RequestRow> rows);

// By choice: its tokens from the first up to the first gap. `prompts`: their lengths, by choice.
std::vector<std::vector<SampledToken>> read_answers(const std::vector<Bytes>& rows,
                                                    const std::vector<std::size_t>& prompts,
                                                    const StepShape& shape);

}  // namespace hearth::coordinator::http
