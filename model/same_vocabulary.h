// Whether two models have the same tokens under the same ids, as a draft model and the model that
// it drafts for must.
#pragma once

#include "base/result.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

// kInvalidInput names the first token that differs, in both files, or the list that is missing.
Status check_same_vocabulary(const GgufFile& draft, const GgufFile& target);

}  // namespace hearth::model
