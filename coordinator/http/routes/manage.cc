#include "coordinator/http/routes/manage.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace hearth::coordinator::http {

void answer_on_pool(Call call, ApiResult<OrderedJson> (*work)(const Call& call)) {
  on_pool(std::move(call), [work](const Call& call) {
    auto done = work(call);
    HttpResponse response = done.ok() ? json_response(dump(*done)) : error_response(done.error());
    call.api->sockets.post([call, response = std::move(response)] { call.respond(response); });
  });
}

bool take_slow_read(const Call& call) {
  constexpr std::uint32_t kAtOnce = 8;
  constexpr std::uint32_t kOfOne = 2;  // so that one key cannot block the others
  auto& reads = call.api->slow_reads;
  std::uint32_t all = 0;
  for (const auto& [owner, count] : reads) all += count;
  const auto own = reads.find(call.request.policy.owner);
  if (all >= kAtOnce || (own != reads.end() && own->second >= kOfOne)) {
    ApiError error = ApiError::of(
        429,
        message_of("too many requests for the ledger, receipts and plans wait: at most ", kAtOnce,
                   ", and ", kOfOne, " of one API key; retry in 1 s"),
        "too_many_reads", "rate_limit_error");
    error.retry_after = 1;
    call.respond(error);
    return false;
  }
  ++reads[call.request.policy.owner];
  return true;
}

void answer_taken(Call call, std::function<ApiResult<OrderedJson>(const Call& call)> work) {
  const std::shared_ptr<Api> api = call.api;
  api->slow_tasks.post([call = std::move(call), work = std::move(work)] {
    auto done = work(call);
    HttpResponse response = done.ok() ? json_response(dump(*done)) : error_response(done.error());
    call.api->sockets.post([call, response = std::move(response)] {
      const auto own = call.api->slow_reads.find(call.request.policy.owner);
      INVARIANT(own != call.api->slow_reads.end(), "a slow read that ends has been counted");
      if (--own->second == 0) call.api->slow_reads.erase(own);
      call.respond(response);
    });
  });
}

void answer_slowly(Call call, std::function<ApiResult<OrderedJson>(const Call& call)> work) {
  if (take_slow_read(call)) answer_taken(std::move(call), std::move(work));
}

ApiError manage_error(const Error& error, const char* not_found) {
  if (error.code == ErrorCode::kInvalidInput) return ApiError::invalid(error.message);
  if (error.code == ErrorCode::kNotFound) return ApiError::not_found(error.message, not_found);
  if (error.code == ErrorCode::kVersion) return ApiError::of(409, error.message, "program_too_old");
  return from_coordinator(error, 1);
}

ApiError store_error(const Error& error, const char* not_found) {
  if (error.code != ErrorCode::kUnavailable) return manage_error(error, not_found);
  return from_coordinator(error, 1, "store_unavailable");
}

std::string path_name(const Call& call, std::string_view before) {
  INVARIANT(call.request.path.starts_with(before), "the route's own path");
  return call.request.path.substr(before.size());
}

void log_deed(const Call& call, const std::string& deed) {
  const std::string& owner = call.request.policy.owner;
  spdlog::info("API: {} by {}", deed,
               owner.find(':') == std::string::npos ? "key " + owner : owner);
}

}  // namespace hearth::coordinator::http
