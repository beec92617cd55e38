#include "coordinator/http/pages/page.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "base/limits.h"
#include "coordinator/http/pages/embedded.h"

namespace hearth::coordinator::http {
namespace {

TEST(PagesTest, EveryPageIsFoundByItsPathAlone) {
  ASSERT_GT(embedded_pages().size(), 5U);
  for (const Page& page : embedded_pages()) {
    EXPECT_EQ(find_page(page.path), &page) << page.path;
    EXPECT_NE(page.content_type.find('/'), std::string_view::npos) << page.path;
  }
  ASSERT_NE(find_page("/"), nullptr);
  EXPECT_TRUE(find_page("/")->bytes.starts_with("<!doctype html>"));
  for (const char* path :
       {"", "/pages", "/pages/", "/pages/index.html", "/pages/../page.cc", "//"}) {
    EXPECT_EQ(find_page(path), nullptr) << path;
  }
}

// What a page names is there, so that no browser asks for what is not.
TEST(PagesTest, EveryPartThatAPageNamesIsThere) {
  constexpr std::string_view kBegin = "/pages/";
  std::set<std::string> named;
  for (const Page& page : embedded_pages()) {
    for (std::size_t at = page.bytes.find(kBegin); at != std::string_view::npos;
         at = page.bytes.find(kBegin, at + 1)) {
      std::size_t end = at + kBegin.size();
      while (
          end < page.bytes.size() &&
          (std::isalnum(static_cast<unsigned char>(page.bytes[end])) || page.bytes[end] == '.')) {
        ++end;
      }
      const std::string path(page.bytes.substr(at, end - at));
      EXPECT_NE(find_page(path), nullptr) << page.path << " names " << path;
      named.insert(path);
    }
  }
  for (const Page& page : embedded_pages()) {
    EXPECT_TRUE(page.path == "/" || named.contains(std::string(page.path)))
        << page.path << " is named by no other page";
  }
}

// Nothing that the policy forbids, and nothing that makes HTML of a text.
TEST(PagesTest, PagesHoldNoInlineCodeAndParseNoHtml) {
  std::size_t bytes = 0;
  for (const Page& page : embedded_pages()) {
    bytes += page.bytes.size();
    for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                             "DOMParser", "eval(", "new Function", "style=", "<script>"}) {
      EXPECT_EQ(page.bytes.find(word), std::string_view::npos) << page.path << ": " << word;
    }
  }
  EXPECT_LT(bytes, 300 * limits::kKiB) << "the first load of all pages";
  for (const char* rule : {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"}) {
    EXPECT_NE(kPagePolicy.find(rule), std::string_view::npos) << rule;
  }
  EXPECT_EQ(kPagePolicy.find("unsafe"), std::string_view::npos);
}

}  // namespace
}  // namespace hearth::coordinator::http
