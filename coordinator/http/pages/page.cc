#include "coordinator/http/pages/page.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/http/pages/embedded.h"

namespace hearth::coordinator::http {

const std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const Page* find_page(std::string_view path) {
  const auto pages = embedded_pages();
  const auto found = std::ranges::find(pages, path, &Page::path);
  if (found == pages.end()) return nullptr;
  INVARIANT(!found->bytes.empty(), "an embedded page has bytes");
  return &*found;
}

}  // namespace hearth::coordinator::http
