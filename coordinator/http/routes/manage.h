// What the routes of admins (Access::kManage) share.
#pragma once

#include <functional>
#include <string>

#include "coordinator/http/api/router.h"

namespace hearth::coordinator::http {

// Answers with what `work` returns, on the pool: the store may wait for the disk.
void answer_on_pool(Call call, ApiResult<OrderedJson> (*work)(const Call& call));

// The same among the pool's slow tasks, where a few wait or run; one more gets 429.
void answer_slowly(Call call, std::function<ApiResult<OrderedJson>(const Call& call)> work);

// 400, 404 with this code, 409 for an older program; else as the coordinator's errors.
ApiError manage_error(const Error& error, const char* not_found);

// The end of a path behind `before`.
std::string path_name(const Call& call, std::string_view before);

// Logs what an admin did.
void log_deed(const Call& call, const std::string& deed);

}  // namespace hearth::coordinator::http
