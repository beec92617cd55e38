// What every verb that asks a Hearth server shares: the key that it sends, and the server's refusal
// as an Error.
#pragma once

#include <string>

#include "base/error.h"
#include "cli/http_client.h"

namespace hearth::cli {

// Authorization with the key; nothing for an empty one.
HttpClient::Headers api_headers(const std::string& api_key);

// Of an answer with a status of 400 or more: the server's own sentence where it sent one.
Error api_error(const HttpReply& reply, const std::string& url);

}  // namespace hearth::cli
