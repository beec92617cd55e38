#include "coordinator/client/api_client.h"

#include <nlohmann/json.hpp>

#include "coordinator/client/parse_reply.h"

namespace hearth::client {
namespace {

using Json = nlohmann::json;

ErrorCode code_of(long status) {
  switch (status) {
    case 401:
    case 403: return ErrorCode::kRefused;
    case 404: return ErrorCode::kNotFound;
    case 429:
    case 503: return ErrorCode::kNoCapacity;
    default: return ErrorCode::kInvalidInput;
  }
}

}  // namespace

HttpClient::Headers api_headers(const std::string& api_key) {
  if (api_key.empty()) return {};
  return {{"Authorization", "Bearer " + api_key}};
}

std::string error_sentence(const Json& error) {
  if (error.is_object() && error.contains("message") && error["message"].is_string()) {
    return error["message"];
  }
  return error.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Error api_error(const HttpReply& reply, const std::string& url) {
  std::string message = url + " answers " + std::to_string(reply.status);
  const Json body = parse_reply(reply.body);
  if (body.is_object() && body.contains("error") && body["error"].is_object()) {
    const Json sentence = body["error"].value("message", Json());
    if (sentence.is_string()) message = sentence;
  }
  if (reply.status == 401) message += "; give it here with --api-key or HEARTH_API_KEY";
  return {code_of(reply.status), message};
}

}  // namespace hearth::client
