// Functions that the routes of admins (Access::kManage) share.
#pragma once

#include <functional>
#include <string>

#include "coordinator/http/api/router.h"

namespace hearth::coordinator::http {

// Answers with what `work` returns, on the pool: the store may wait for the disk.
void answer_on_pool(Call call, ApiResult<OrderedJson> (*work)(const Call& call));

// Counts a slow read (Api::slow_reads). False: too many slow reads, in all or of this owner, wait
// or run, and the request has been answered with 429.
bool take_slow_read(const Call& call);
// Answers a request that take_slow_read() counted with what `work` returns, among the pool's slow
// tasks.
void answer_taken(Call call, std::function<ApiResult<OrderedJson>(const Call& call)> work);
// Both.
void answer_slowly(Call call, std::function<ApiResult<OrderedJson>(const Call& call)> work);

// 400, 404 with this code, or 409 for an older program; otherwise as from_coordinator().
ApiError manage_error(const Error& error, const char* not_found);

// The same for an error of the store: 503 while its database is away.
ApiError store_error(const Error& error, const char* not_found);

// The part of a path after `before`.
std::string path_name(const Call& call, std::string_view before);

// Logs what an admin did.
void log_deed(const Call& call, const std::string& deed);

}  // namespace hearth::coordinator::http
