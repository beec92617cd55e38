// What an earlier process has written of the requests that it answered, read again. The rows are
// input like any other: whoever can write into the store's file chose them.
#pragma once

#include <memory>
#include <vector>

#include "coordinator/http/api/api.h"
#include "coordinator/store/requests.h"

namespace hearth::coordinator::http {

// Goes on with those that run and keeps the answers of the others as long as was left to them.
// Socket thread, once, before the first request. What cannot be read is said in the log and
// removed.
void resume_requests(const std::shared_ptr<Api>& api, std::vector<RequestRow> rows);

// By choice: its tokens from the first on, as far as they are there without a gap. `prompts`: their
// lengths, by choice.
std::vector<std::vector<SampledToken>> read_answers(const std::vector<Bytes>& rows,
                                                    const std::vector<std::size_t>& prompts,
                                                    const StepShape& shape);

}  // namespace hearth::coordinator::http
