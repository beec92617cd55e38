// Who may talk to a loopback API: DNS rebinding is stopped by the Host header, pages of other sites
// by the Origin header. Defaults are ollama's.
#pragma once

#include <string>
#include <string_view>

namespace hearth::coordinator::http {

// A Host header (or the authority of an absolute target) that names this machine: localhost,
// *.localhost, 127.0.0.0/8, [::1], or `configured`. Any port.
bool host_allowed(std::string_view host, std::string_view configured);

// An Origin on this machine (http or https on an allowed host), or of a desktop shell: app://,
// file://, tauri://, vscode-webview://, vscode-file://.
bool origin_allowed(std::string_view origin, std::string_view configured);

// "%41" decoding of a path. False for a broken escape, a NUL or a control character.
bool decode_path(std::string_view raw, std::string& out);

}  // namespace hearth::coordinator::http
