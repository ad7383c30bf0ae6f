//! How the command's tables look.

use comfy_table::{ContentArrangement, LineStyle, Row, Table, TableStyle};

const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table without rows, as wide as the terminal at most.
pub(super) fn table(header: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    table
}
