// What the routes of admins (Access::kManage) share.
#pragma once

#include <functional>
#include <string>

#include "coordinator/http/api/router.h"

namespace hearth::coordinator::http {

// Answers with what `work` returns, on the pool: the store may wait for the disk.
void answer_on_pool(Call call, ApiResult<OrderedJson> (*work)(const Call& call));

// Counts a request that reads much (Api::slow_reads). False: too many wait or run, of all or of
// this owner, and the request has been answered with 429.
bool take_slow_read(const Call& call);
// Answers a request that take_slow_read() counted with what `work` returns, among the pool's slow
// tasks.
void answer_taken(Call call, std::function<ApiResult<OrderedJson>(const Call& call)> work);
// Both.
void answer_slowly(Call call, std::function<ApiResult<OrderedJson>(const Call& call)> work);

// 400, 404 with this code, 409 for an older program; else as the coordinator's errors.
ApiError manage_error(const Error& error, const char* not_found);

// The end of a path behind `before`.
std::string path_name(const Call& call, std::string_view before);

// Logs what an admin did.
void log_deed(const Call& call, const std::string& deed);

}  // namespace hearth::coordinator::http
