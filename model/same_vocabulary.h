// Checks that a draft model and its target have the same tokens with the same ids.
#pragma once

#include "base/result.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

// kInvalidInput names the first token that differs, or the file without a vocabulary.
Status check_same_vocabulary(const GgufFile& draft, const GgufFile& target);

}  // namespace hearth::model
