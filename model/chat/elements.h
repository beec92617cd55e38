// Arguments that a model writes as elements, as in <city>Paris</city>, with brackets of its own
// (ChatSyntax::parameter_begin, key_end and value_end). Objects are elements in turn, lists are
// elements that are all named "item". Bounded in depth; every text is read once.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/chat/syntax.h"

namespace hearth::model {

// The arguments of one call as a JSON object. `schema` tells texts from other values; it may be
// empty. Nothing when the text holds anything else than elements.
std::optional<std::string> elements_to_json(const ChatSyntax& syntax, std::string_view text,
                                            std::string_view schema);

// Whether a value of this schema may be a text. Then all up to the end of its element is one.
bool may_be_text(std::string_view schema);

}  // namespace hearth::model
