// The API key in requests to a Hearth server, and the server's error answers as an Error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "coordinator/client/http_client.h"

namespace hearth::client {

// Authorization with the key; nothing for an empty one.
HttpClient::Headers api_headers(const std::string& api_key);
// The message of an `error` object; the object itself as JSON when it has no message string.
std::string error_sentence(const nlohmann::json& error);
// The error of an answer with a status of 400 or more: the server's own sentence where it sent one.
Error api_error(const HttpReply& reply, const std::string& url);

}  // namespace hearth::client
