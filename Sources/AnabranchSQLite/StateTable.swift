/// The table of the states of synced files. How a state is laid out in rows is said in `Spec/Durability.md`.
enum StateTable {
    static let sql = """
        CREATE TABLE state_row (
            file INTEGER NOT NULL,
            class INTEGER NOT NULL,
            key BLOB NOT NULL,
            chunk INTEGER NOT NULL,
            content BLOB NOT NULL,
            PRIMARY KEY (file, class, key, chunk)
        ) WITHOUT ROWID;
        """
}
