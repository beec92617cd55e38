// The web pages: files of files/, embedded in the program when it is built
// (cmake/EmbedPages.cmake). They are static and contain no data of a cluster. They get their data
// from the routes of the API, with the visitor's API key. They need no other server.
#pragma once

#include <string_view>

namespace hearth::coordinator::http {

struct Page {
  std::string_view path;          // of the URL: "/" or "/pages/NAME"
  std::string_view content_type;  // with its charset
  std::string_view bytes;         // for as long as the process runs
};

// Null if there is no such page. Any thread.
const Page* find_page(std::string_view path);

// The Content-Security-Policy of every page: scripts, styles, images and requests of this server
// only, no inline script or style, in no frame of another page.
extern const std::string_view kPagePolicy;

}  // namespace hearth::coordinator::http
