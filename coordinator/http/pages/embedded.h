// The files of files/ as the build embedded them; the source is generated.
#pragma once

#include <span>

#include "coordinator/http/pages/page.h"

namespace hearth::coordinator::http {

std::span<const Page> embedded_pages();

}  // namespace hearth::coordinator::http
