// The figures of the articles as text, each beside the corrected one. Prices and rates are those of
// the program's own catalogue.
#pragma once

#include <string>
#include <vector>

#include "cli/plan/catalogue/catalogue.h"
#include "tests/articles/article.h"

namespace hearth::cli {

// The cards with the figures that the articles print (printed.toml).
std::vector<placement::Card> printed_cards();

placement::ArticleInputs article_inputs(const Catalogue& catalogue);
std::vector<std::string> article_lines(const Catalogue& catalogue);
std::string article_json(const Catalogue& catalogue);

}  // namespace hearth::cli
