// Cursors inside cursors.
#pragma once

#include <penstock/pipeline/engine/operator.h>

namespace penstock::stage {

/// Appends `part` with its length, for `read_part`.
void append_part(Cursor& to, const Cursor& part);
/// Throws InvalidArgument when the cursor is too short.
Cursor read_part(engine::CursorReader& cursor);

}  // namespace penstock::stage
