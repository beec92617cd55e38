// The web pages (coordinator/http/pages). Every client that reaches the API may load them.
#include <string>

#include "coordinator/http/api/router.h"
#include "coordinator/http/pages/page.h"

namespace hearth::coordinator::http {

void handle_page(Call call) {
  const Page* page = find_page(call.request.path);
  if (page == nullptr) {
    return call.respond(ApiError::not_found(
        "there is no page " + valid_utf8(call.request.path.substr(0, 256)), "not_found"));
  }
  HttpResponse response{200, std::string(page->bytes), std::string(page->content_type)};
  response.headers = {{"Content-Security-Policy", std::string(kPagePolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"X-Frame-Options", "DENY"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}};
  call.respond(std::move(response));
}

}  // namespace hearth::coordinator::http
