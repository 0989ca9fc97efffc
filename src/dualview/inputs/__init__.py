"""What people give, checked: tables of users, tables of threads."""
